package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Labels of an image that say how its server speaks.
const (
	labelTransport = "dev.toolhaven.transport"
	labelPort      = "dev.toolhaven.port"
)

// defaultTargetPort is told to an HTTP server (MCP_PORT) when nothing else says
// where it listens.
const defaultTargetPort = 8080

// settleRemote finds out how a remote server speaks.
func (o *runOptions) settleRemote(ctx context.Context, s *workload.Spec, p *render.Progress) error {
	if o.transport != "" {
		s.Transport = workload.Transport(o.transport)
	}
	if s.Transport != "" || len(s.Remote.SecretHeaders) > 0 {
		s.Transport = cmp.Or(s.Transport, workload.StreamableHTTP)
		return nil
	}
	p.Event(workload.Event{Stage: "server", Message: "asking " + s.Remote.URL + " how it speaks"})
	rt, err := netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true})
	if err != nil {
		return err
	}
	found, err := backend.Detect(ctx, s.Remote.URL, rt)
	if err != nil {
		return fmt.Errorf("%s does not answer as an MCP server: %w", s.Remote.URL, err)
	}
	s.Transport = workload.Transport(found)
	return nil
}

// settleImage makes the image present and reads from it what nobody has said:
// flag, registry, label, exposed port, in this order.
func (o *runOptions) settleImage(ctx context.Context, app *base.App, s *workload.Spec, p *render.Progress) error {
	engine, err := app.Engine(ctx)
	if err != nil {
		return err
	}
	if s.Package != nil {
		if err := buildPackage(ctx, app, engine, s, p); err != nil {
			return err
		}
	}
	image, err := presentImage(ctx, engine, s.Image, p)
	if err != nil {
		return err
	}
	transport := workload.Transport(cmp.Or(o.transport, string(s.Transport), image.Labels[labelTransport]))
	if transport == "" {
		transport = workload.Stdio
		if s.Package == nil && len(image.ExposedPorts) > 0 {
			transport = workload.StreamableHTTP
		}
	}
	s.Transport = transport
	if transport == workload.Stdio {
		return nil // a target that was given all the same is Validate's to report
	}
	s.TargetHost = cmp.Or(s.TargetHost, o.targetHost)
	if s.TargetPort == 0 {
		if port, err := strconv.Atoi(image.Labels[labelPort]); err == nil {
			s.TargetPort = port
		}
	}
	if s.TargetPort == 0 && len(image.ExposedPorts) > 1 {
		return base.Usage("the image exposes ports %v; choose the server's with --target-port", image.ExposedPorts)
	}
	if s.TargetPort == 0 && len(image.ExposedPorts) == 1 {
		s.TargetPort = image.ExposedPorts[0]
	}
	s.TargetPort = cmp.Or(s.TargetPort, defaultTargetPort)
	if s.TargetPath == "" {
		s.TargetPath = map[workload.Transport]string{workload.SSE: "/sse", workload.StreamableHTTP: "/mcp"}[transport]
	}
	return nil
}

// presentImage pulls an image that the engine does not have.
func presentImage(ctx context.Context, engine container.Engine, ref string, p *render.Progress) (container.Image, error) {
	image, err := engine.Image(ctx, ref)
	if !errors.Is(err, container.ErrNotFound) {
		return image, err
	}
	p.Event(workload.Event{Stage: "image", Message: "pulling " + ref})
	err = engine.Pull(ctx, ref, func(step container.Progress) {
		p.Event(workload.Event{Stage: "image", Message: step.Status + " " + step.ID, Current: step.Current, Total: step.Total})
	})
	if err != nil {
		return image, err
	}
	return engine.Image(ctx, ref)
}
