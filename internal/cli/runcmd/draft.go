package runcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// draft is a Spec on its way to being run, with the values of its secrets apart.
type draft struct {
	spec    *workload.Spec
	secrets map[string]string // by key of the workload's secrets
	notices []string
}

// draft makes the Spec that the command line asks for, and makes its image
// present. Bad values are reported all at once, and before anything is fetched.
func (o *runOptions) draft(ctx context.Context, app *base.App, p *render.Progress) (*draft, error) {
	if o.fromConfig != "" {
		return o.importSpec(ctx, app, p)
	}
	own, err := o.parse()
	if err != nil {
		return nil, base.AsUsage(err)
	}
	if err := mayRun(ctx, app, o.name, o.group); err != nil {
		return nil, err
	}
	found, err := source.Resolve(ctx, source.Request{
		Arg: o.arg, Args: o.args, Transport: workload.Transport(o.transport),
		Permissions: own.permissions != nil, Mounts: len(own.mounts) > 0, Network: o.network != "",
		Catalog: app.Catalog,
	})
	if err != nil {
		return nil, err
	}
	d := &draft{spec: &found.Spec, secrets: map[string]string{}, notices: found.Notices}
	s := d.spec
	if s.Name = o.name; s.Name == "" {
		s.Name = found.Name
		if err := mayRun(ctx, app, s.Name, ""); err != nil {
			return nil, err
		}
	}
	if err := o.refuseMisplaced(s); err != nil {
		return nil, base.AsUsage(err)
	}
	if err := o.apply(s, own); err != nil {
		return nil, base.AsUsage(err)
	}
	if err := d.applyEnv(ctx, app, own.env, found.Inputs); err != nil {
		return nil, err
	}
	whose := "the registry"
	if own.permissions != nil {
		whose = "the permission profile"
	}
	d.notices = append(d.notices, s.Unenforced(whose)...)
	if err := workload.Validate(soFar(*s)); err != nil {
		return nil, base.AsUsage(err)
	}
	if err := o.choosePort(ctx, app, s); err != nil {
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
	return d, base.AsUsage(workload.Validate(s))
}

// mayRun tells early, before anything is fetched, what would be refused in the
// end: a name that is taken, a group that is not there. An empty name or group
// is not looked at. (What decides is Manager.Create.)
func mayRun(ctx context.Context, app *base.App, name, group string) error {
	if group != "" {
		if err := base.GroupExists(app, group); err != nil {
			return fmt.Errorf("%w; make it with `thv group create %s`", err, group)
		}
	}
	if name == "" {
		return nil
	}
	if err := workload.ValidName(name); err != nil {
		return base.AsUsage(err)
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	if _, err := store.Get(name); err == nil {
		return nameTaken(ctx, app, name)
	} else if !errors.Is(err, workload.ErrNotFound) {
		return err
	}
	owner, err := store.Owner(name)
	if err != nil {
		return err
	}
	if owner != nil {
		return fmt.Errorf("%w: %q runs, though its configuration is lost; `thv restart %s` restores it, `thv rm %s` removes it", workload.ErrExists, name, name, name)
	}
	return nil
}

// values are the parsed values of flags.
type values struct {
	env         map[string]string
	mounts      []workload.Mount
	ports       []workload.Port
	labels      map[string]string
	permissions *workload.Permissions
}

// parse reads every value of the command line and reports everything that is
// wrong with them, as far as it can be told without knowing the server.
func (o *runOptions) parse() (*values, error) {
	cwd, err := workingDir()
	if err != nil {
		return nil, err
	}
	v := &values{}
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	v.env, err = o.environment()
	note(err)
	for _, value := range o.volumes {
		m, err := workload.ParseMount(value, cwd)
		if err != nil {
			note(err)
			continue
		}
		v.mounts = append(v.mounts, m)
	}
	for _, value := range o.ports {
		port, err := workload.ParsePort(value)
		if err != nil {
			note(err)
			continue
		}
		v.ports = append(v.ports, port)
	}
	v.labels, err = workload.ParseLabels(o.labels)
	note(err)
	if o.profile != "" {
		permissions, mounts, err := workload.LoadPermissions(o.profile, cwd)
		note(err)
		permissions.Read, permissions.Write = nil, nil // they are mounts now
		v.permissions = &permissions
		v.mounts = workload.MergeMounts(mounts, v.mounts)
	}
	if o.caCert != "" {
		if _, err := os.Stat(o.caCert); err != nil {
			note(fmt.Errorf("--ca-cert: %w", err))
		}
	}
	probe := workload.Spec{}
	if o.given("name") {
		probe.Name = o.name
		if o.name == "" {
			note(workload.ValidName(""))
		}
	}
	note(o.apply(&probe, v))
	note(workload.Validate(soFar(probe)))
	return v, errors.Join(errs...)
}

// environment is what --env-file, --env-file-dir and -e give; the later wins.
func (o *runOptions) environment() (map[string]string, error) {
	all := map[string]string{}
	var errs []error
	add := func(env map[string]string, err error) {
		maps.Copy(all, env)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if o.envFile != "" {
		add(workload.LoadEnvFile(o.envFile))
	}
	if o.envFileDir != "" {
		add(workload.LoadEnvDir(o.envFileDir))
	}
	add(workload.ParseEnv(o.env, os.LookupEnv))
	return all, errors.Join(errs...)
}

// apply puts what the flags say over what the source said: flag > registry >
// default.
func (o *runOptions) apply(s *workload.Spec, own *values) error {
	s.Schema, s.Group = workload.Schema, o.group
	if o.debug {
		s.Debug = true
	}
	if o.transport != "" {
		s.Transport = workload.Transport(o.transport)
	}
	if s.Transport == workload.Stdio {
		s.TargetHost, s.TargetPort, s.TargetPath = "", 0, ""
	}
	if o.given("target-port") {
		s.TargetPort = o.targetPort
	}
	if o.given("target-host") {
		s.TargetHost = o.targetHost
	}
	x := &s.Proxy
	x.Host, x.Mode, x.EndpointPrefix = o.host, o.proxyMode, o.endpointPrefix
	x.TrustProxyHeaders, x.AllowedHosts = o.trustProxyHeaders, o.allowedHosts
	x.SessionTTL = workload.Duration(o.sessionTTL)
	x.Stateless = x.Stateless || o.stateless
	if o.given("proxy-port") {
		x.Port = o.proxyPort
	}
	if s.Remote != nil {
		return nil
	}
	c := &s.Container
	c.Labels, c.Network, c.Publish = own.labels, o.network, own.ports
	c.Mounts = workload.MergeMounts(c.Mounts, own.mounts)
	if own.permissions != nil {
		c.Permissions = *own.permissions
	} else if reflect.ValueOf(c.Permissions).IsZero() {
		// A profile without a network section grants none; no profile at all
		// is the profile network.
		c.Permissions, _ = workload.BuiltinPermissions("network")
	}
	if p := s.Package; p != nil {
		p.RuntimeImage = o.runtimeImage
		p.AddPackages = append(p.AddPackages, o.addPackages...) // beside the registry's
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

// soFar completes a Spec whose server has not been looked at yet with values
// that are always right, so that every fault Validate finds in it is real.
func soFar(s workload.Spec) *workload.Spec {
	if s.Name == "" {
		s.Name = "server"
	}
	if s.Image == "" && s.Remote == nil {
		s.Image = "image"
	}
	if s.Transport == "" {
		s.Transport = workload.StreamableHTTP
	}
	if s.Proxy.Port == 0 {
		s.Proxy.Port = 1
	}
	if s.Transport != workload.Stdio {
		if s.TargetHost == "" {
			s.TargetHost = "127.0.0.1"
		}
		if s.TargetPort == 0 {
			s.TargetPort = 1
			s.Container.Publish = nil // whether it is the server's own is open
		}
	}
	return &s
}

// refuseMisplaced: a flag that would mean nothing for this server is an error.
func (o *runOptions) refuseMisplaced(s *workload.Spec) error {
	var errs []error
	refuse := func(why string, flags ...string) {
		for _, flag := range flags {
			if o.given(flag) {
				errs = append(errs, fmt.Errorf("--%s %s", flag, why))
			}
		}
	}
	if s.Package == nil {
		refuse("is for servers given as npx://, uvx:// or go:// packages", "ca-cert", "runtime-image", "runtime-add-package")
	}
	if s.Remote != nil {
		refuse("is for servers that run here, not for a remote URL", "volume", "publish", "network", "permission-profile", "label", "target-host", "target-port")
	}
	return errors.Join(errs...)
}

// choosePort settles the proxy's port: flag, registry, or the name's own, which is a
// free one when it is chosen. It is remembered, so that the URL never changes.
func (o *runOptions) choosePort(ctx context.Context, app *base.App, s *workload.Spec) error {
	store, err := app.Store()
	if err != nil {
		return err
	}
	if s.Proxy.Port != 0 {
		return store.RememberPort(s.Name, s.Proxy.Port)
	}
	s.Proxy.Port, err = store.Port(s.Name, func(port int) bool {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(s.Proxy.Host, strconv.Itoa(port)))
		if err == nil {
			_ = l.Close() // it only was a question
		}
		return !errors.Is(err, syscall.EADDRINUSE) // what else is wrong, the start says
	})
	return err
}

// nameTaken says what to do about the workload that has the name.
func nameTaken(ctx context.Context, app *base.App, name string) error {
	m, err := app.Manager()
	if err != nil {
		return err
	}
	st, err := m.Status(ctx, name)
	if errors.Is(err, workload.ErrNotFound) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	then := ""
	if !base.Serves(st) {
		then = base.Advice(st) + "; "
	}
	return fmt.Errorf("%w: %q, which is %s; %sremove it with `thv rm %s`, or choose another --name", workload.ErrExists, name, st.State, then, name)
}
