package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// draft is a Spec on its way to being run, with the values of its secrets apart.
type draft struct {
	spec    *workload.Spec
	secrets map[string]string // by key of the workload's secrets
	notices []string
}

// Labels of an image that say how its server speaks.
const (
	labelTransport = "dev.toolhaven.transport"
	labelPort      = "dev.toolhaven.port"
)

// defaultTargetPort is told to an HTTP server (MCP_PORT) when nothing else says
// where it listens.
const defaultTargetPort = 8080

// draft makes the Spec that the command line asks for, and makes its image
// present. Bad values are reported all at once, before anything is fetched.
func (o *runOptions) draft(ctx context.Context, app *App, p *progress) (*draft, error) {
	if o.fromConfig != "" {
		return o.importSpec(ctx, app, p)
	}
	own, err := o.parse()
	if err != nil {
		return nil, asUsage(err)
	}
	found, err := source.Resolve(ctx, source.Request{
		Arg: o.arg, Args: o.args, Transport: workload.Transport(o.transport),
		Permissions: o.profile != "", Mounts: len(o.volumes) > 0, Network: o.network != "",
		Catalog: app.Catalog,
	})
	if err != nil {
		return nil, err
	}
	d := &draft{spec: &found.Spec, secrets: map[string]string{}, notices: found.Notices}
	s := d.spec
	s.Schema, s.Group, s.Debug = workload.Schema, o.group, app.Debug
	if s.Name = o.name; s.Name == "" {
		s.Name = found.Name
	}
	if err := workload.ValidName(s.Name); err != nil {
		return nil, asUsage(err)
	}
	if err := o.refusePackageFlags(s); err != nil {
		return nil, asUsage(err)
	}
	if err := o.applyContainer(s, own); err != nil {
		return nil, asUsage(err)
	}
	if err := d.applyEnv(app, own.env, found.Inputs); err != nil {
		return nil, err
	}
	d.noteHosts()
	if err := o.applyProxy(app, s); err != nil {
		return nil, err
	}
	if s.Remote != nil {
		err = o.settleRemote(ctx, s, p)
	} else {
		err = o.settleImage(ctx, app, s, p)
	}
	if err != nil {
		return nil, err
	}
	return d, asUsage(workload.Validate(s))
}

// values are the parsed values of repeatable flags.
type values struct {
	env         map[string]string
	mounts      []workload.Mount
	ports       []workload.Port
	labels      map[string]string
	permissions *workload.Permissions
}

func (o *runOptions) parse() (*values, error) {
	cwd, err := workingDir()
	if err != nil {
		return nil, err
	}
	v := &values{env: map[string]string{}}
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if o.envFile != "" {
		env, err := workload.LoadEnvFile(o.envFile)
		note(err)
		maps.Copy(v.env, env)
	}
	if o.envFileDir != "" {
		env, err := workload.LoadEnvDir(o.envFileDir)
		note(err)
		maps.Copy(v.env, env)
	}
	env, err := workload.ParseEnv(o.env, os.LookupEnv)
	note(err)
	maps.Copy(v.env, env)
	for _, value := range o.volumes {
		m, err := workload.ParseMount(value, cwd)
		note(err)
		v.mounts = append(v.mounts, m)
	}
	for _, value := range o.ports {
		port, err := workload.ParsePort(value)
		note(err)
		v.ports = append(v.ports, port)
	}
	v.labels, err = workload.ParseLabels(o.labels)
	note(err)
	if o.profile != "" {
		permissions, mounts, err := workload.LoadPermissions(o.profile, cwd)
		note(err)
		v.permissions = &permissions
		v.mounts = workload.MergeMounts(mounts, v.mounts)
	}
	if o.transport != "" && o.transport != "stdio" && o.transport != "sse" && o.transport != "streamable-http" {
		note(fmt.Errorf("--transport %q: choose stdio, sse or streamable-http", o.transport))
	}
	if o.proxyMode != "sse" && o.proxyMode != "streamable-http" {
		note(fmt.Errorf("--proxy-mode %q: choose streamable-http or sse", o.proxyMode))
	}
	if o.given("proxy-port") && (o.proxyPort < 1 || o.proxyPort > 65535) {
		note(fmt.Errorf("--proxy-port %d is not a port (1 to 65535)", o.proxyPort))
	}
	if o.given("target-port") && (o.targetPort < 1 || o.targetPort > 65535) {
		note(fmt.Errorf("--target-port %d is not a port (1 to 65535)", o.targetPort))
	}
	if o.sessionTTL < 0 {
		note(errors.New("--session-ttl must not be negative"))
	}
	if o.caCert != "" {
		if _, err := os.Stat(o.caCert); err != nil {
			note(fmt.Errorf("--ca-cert: %w", err))
		}
	}
	return v, errors.Join(errs...)
}

// refusePackageFlags: what shapes the build of an image means nothing without
// one.
func (o *runOptions) refusePackageFlags(s *workload.Spec) error {
	var errs []error
	if s.Package == nil {
		for _, flag := range []string{"ca-cert", "runtime-image", "runtime-add-package"} {
			if o.given(flag) {
				errs = append(errs, fmt.Errorf("--%s is for servers given as npx://, uvx:// or go:// packages", flag))
			}
		}
	}
	if s.Remote != nil {
		for _, flag := range []string{"volume", "publish", "network", "permission-profile", "label", "target-host", "target-port"} {
			if o.given(flag) {
				errs = append(errs, fmt.Errorf("--%s is for servers that run here, not for a remote URL", flag))
			}
		}
	}
	return errors.Join(errs...)
}

func (o *runOptions) applyContainer(s *workload.Spec, own *values) error {
	if s.Remote != nil {
		return nil
	}
	c := &s.Container
	c.Labels, c.Network = own.labels, o.network
	c.Publish = own.ports
	c.Mounts = workload.MergeMounts(c.Mounts, own.mounts)
	if own.permissions != nil {
		c.Permissions = *own.permissions
		c.Permissions.Read, c.Permissions.Write = nil, nil // they are Mounts now
	} else if c.Permissions.Network == nil {
		c.Permissions, _ = workload.BuiltinPermissions("network")
	}
	if p := s.Package; p != nil {
		p.RuntimeImage, p.AddPackages = o.runtimeImage, o.addPackages
		if o.caCert != "" {
			abs, err := filepath.Abs(o.caCert)
			if err != nil {
				return err
			}
			p.CACert = abs
		}
	}
	return nil
}

// noteHosts: a profile's list of hosts does nothing by itself.
func (d *draft) noteHosts() {
	n := d.spec.Container.Permissions.Network
	if n == nil || n.Outbound == nil || len(d.notices) > 0 {
		return
	}
	if len(n.Outbound.AllowHost)+len(n.Outbound.AllowPort) > 0 {
		d.notices = append(d.notices, "the permission profile lists allowed hosts or ports; they are enforced only with --isolate-network, so the server can reach any address")
	}
}

func (o *runOptions) applyProxy(app *App, s *workload.Spec) error {
	p := &s.Proxy
	p.Host, p.Mode, p.EndpointPrefix = o.host, o.proxyMode, o.endpointPrefix
	p.SessionTTL = workload.Duration(o.sessionTTL)
	p.Stateless = p.Stateless || o.stateless
	store, err := app.Store()
	if err != nil {
		return err
	}
	if o.proxyPort != 0 {
		p.Port = o.proxyPort
	}
	if p.Port != 0 {
		return store.RememberPort(s.Name, p.Port)
	}
	p.Port, err = store.Port(s.Name)
	return err
}

// settleRemote finds out how a remote server speaks.
func (o *runOptions) settleRemote(ctx context.Context, s *workload.Spec, p *progress) error {
	if o.transport != "" {
		s.Transport = workload.Transport(o.transport)
	}
	if s.Transport != "" || len(s.Remote.SecretHeaders) > 0 {
		s.Transport = cmp.Or(s.Transport, workload.StreamableHTTP)
		return nil
	}
	p.event(workload.Event{Stage: "server", Message: "asking " + s.Remote.URL + " how it speaks"})
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
func (o *runOptions) settleImage(ctx context.Context, app *App, s *workload.Spec, p *progress) error {
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
		for _, flag := range []string{"target-host", "target-port"} {
			if o.given(flag) {
				return usage("--%s is for servers that speak HTTP; add --transport streamable-http or sse", flag)
			}
		}
		s.TargetPort, s.TargetHost, s.TargetPath = 0, "", ""
		return nil
	}
	s.TargetHost = o.targetHost
	if o.targetPort != 0 {
		s.TargetPort = o.targetPort
	}
	if s.TargetPort == 0 {
		if _, err := fmt.Sscan(image.Labels[labelPort], &s.TargetPort); err != nil {
			s.TargetPort = 0
		}
	}
	if s.TargetPort == 0 && len(image.ExposedPorts) > 1 {
		return usage("the image exposes ports %v; choose the server's with --target-port", image.ExposedPorts)
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
func presentImage(ctx context.Context, engine container.Engine, ref string, p *progress) (container.Image, error) {
	image, err := engine.Image(ctx, ref)
	if !errors.Is(err, container.ErrNotFound) {
		return image, err
	}
	p.event(workload.Event{Stage: "image", Message: "pulling " + ref})
	err = engine.Pull(ctx, ref, func(step container.Progress) {
		p.event(workload.Event{Stage: "image", Message: step.Status + " " + step.ID, Current: step.Current, Total: step.Total})
	})
	if err != nil {
		return image, err
	}
	return engine.Image(ctx, ref)
}

// applyEnv gives the server its variables: the registry's defaults, then what
// the person gave. Values that look secret go to the secrets store. What is
// required and missing is asked for on a terminal, else reported, all at once.
func (d *draft) applyEnv(app *App, own map[string]string, inputs []source.Input) error {
	s := d.spec
	values := maps.Clone(s.Env)
	if values == nil {
		values = map[string]string{}
	}
	marked := map[string]bool{} // declared secret by the registry
	headers := map[string]string{}
	for _, in := range inputs {
		name := in.Name
		if in.Header {
			name = headerVariable(in.Name)
			headers[name] = in.Name
		}
		marked[name] = marked[name] || in.Secret
		if in.Default != "" {
			values[name] = in.Default
		}
	}
	maps.Copy(values, own)
	if err := askMissing(app, values, inputs); err != nil {
		return err
	}
	s.Env = map[string]string{}
	for name, value := range values {
		isSecret := marked[name] && value != "" || secret.Looks(name, value)
		if isSecret {
			d.secrets[name] = value
		}
		ref := secret.Ref(s.Name, name)
		header, isHeader := headers[name]
		switch {
		case s.Remote != nil && !isHeader:
			return usage("-e %s: environment variables are for servers that run here, not for a remote URL", name)
		case s.Remote != nil && isSecret:
			s.Remote.SecretHeaders = put(s.Remote.SecretHeaders, header, ref)
		case s.Remote != nil:
			s.Remote.Headers = put(s.Remote.Headers, header, value)
		case isSecret:
			s.SecretEnv = put(s.SecretEnv, name, ref)
		default:
			s.Env[name] = value
		}
	}
	return nil
}

func put(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// headerVariable is the name under which -e gives a remote server's header.
func headerVariable(header string) string {
	return strings.ToUpper(strings.ReplaceAll(header, "-", "_"))
}
