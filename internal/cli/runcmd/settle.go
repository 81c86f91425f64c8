package runcmd

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Labels of an image that describe its server.
const (
	labelTransport = "dev.toolhaven.transport"
	labelPort      = "dev.toolhaven.port"
)

// defaultTargetPort is where an HTTP server listens (MCP_PORT) unless a flag, the
// registry or the image gives another port.
const defaultTargetPort = 8080

// settleImage makes the image present and completes the Spec from it. For the transport
// and the port: flag, registry, label, exposed port, in this order.
func (o *options) settleImage(ctx context.Context, d *draft) error {
	s := d.spec
	engine, err := o.app.Engine(ctx)
	if err != nil {
		return err
	}
	requested := ""
	if s.Package != nil {
		requested = s.Package.Version
		if err := base.BuildPackage(ctx, o.app, engine, s, false, o.progress.Event); err != nil {
			return err
		}
	}
	verified, err := o.app.VerifyImage(ctx, engine, s, o.progress.Event)
	if err != nil {
		return err
	}
	d.notices = append(d.notices, verified.Notices...)
	image, err := o.presentImage(ctx, engine, verified.Ref)
	if err != nil {
		return err
	}
	s.Resolve(requested, image.ID, image.Digests)
	verified.Record(s)
	if s.Transport == "" {
		s.Transport = workload.Transport(image.Labels[labelTransport])
	}
	if s.Transport == "" {
		s.Transport = workload.Stdio
		if s.Package == nil && len(image.ExposedPorts) > 0 {
			s.Transport = workload.StreamableHTTP
		}
	}
	if s.Transport == workload.Stdio {
		return nil
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
		s.TargetPath = map[workload.Transport]string{workload.SSE: "/sse", workload.StreamableHTTP: "/mcp"}[s.Transport]
	}
	return nil
}

// presentImage pulls an image that the engine does not have.
func (o *options) presentImage(ctx context.Context, engine container.Engine, ref string) (container.Image, error) {
	image, err := engine.Image(ctx, ref)
	if !errors.Is(err, container.ErrNotFound) {
		return image, err
	}
	o.progress.Event(manager.Event{Stage: "image", Message: "pulling " + ref})
	err = engine.Pull(ctx, ref, func(step container.Progress) {
		o.progress.Event(manager.Event{Stage: "image", Message: step.Status + " " + step.ID, Current: step.Current, Total: step.Total})
	})
	if err != nil {
		return image, err
	}
	return engine.Image(ctx, ref)
}
