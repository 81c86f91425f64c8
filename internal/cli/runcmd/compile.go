package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// compile makes a draft from the flags and from the source that the argument names.
// Wrong flags are reported together, before the registry is contacted.
func compile(ctx context.Context, o *options) (*draft, error) {
	s, env, err := o.parse()
	if err != nil {
		return nil, base.AsUsage(err)
	}
	if err := checkName(ctx, o.app, o.name, o.group); err != nil {
		return nil, err
	}
	found, err := source.Resolve(ctx, source.Request{
		Arg: o.arg, Args: o.args, Transport: s.Transport,
		Permissions: o.profile != "", Mounts: len(s.Container.Mounts) > 0, Network: o.network != "",
		Approve: o.approver(ctx), Catalog: o.app.Catalog,
	})
	if err != nil {
		return nil, err
	}
	if s.Name == "" {
		s.Name = found.Name
		if err := checkName(ctx, o.app, s.Name, ""); err != nil {
			return nil, err
		}
	}
	if err := o.misplaced(&found.Spec); err != nil {
		return nil, base.AsUsage(err)
	}
	o.complete(s, &found.Spec)
	if err := check(*s); err != nil {
		return nil, base.AsUsage(err)
	}
	d := &draft{spec: s, secrets: map[string]string{}, notices: found.Notices, dry: o.dryRun, origin: "the registry"}
	if o.profile != "" {
		d.origin = "the permission profile"
	}
	d.keepTelemetryHeaders(o.telemetryHeaders)
	for _, in := range found.Inputs {
		if value, given := o.remote.Headers[in.Name]; in.Header && given {
			env[variable(in)] = value // --remote-forward-headers
		}
	}
	isTarget := func(name string) bool { return o.targets[name] != "" }
	maps.DeleteFunc(env, func(name, _ string) bool { return isTarget(name) })
	inputs := slices.DeleteFunc(slices.Clone(found.Inputs), func(in source.Input) bool {
		_, isHeader := o.remote.SecretHeaders[in.Name]
		return isTarget(variable(in)) || in.Header && isHeader
	})
	if err := d.applyEnv(ctx, o.app, env, inputs); err != nil {
		return nil, err
	}
	if err := d.checkTargets(o.targets, o.secretValue); err != nil {
		return nil, base.AsUsage(err)
	}
	d.applySecrets(o.targets)
	d.keepSecrets(o.secretValue)
	if err := check(*s); err != nil { // some rules are about the secrets that a Spec refers to
		return nil, base.AsUsage(err)
	}
	return d, checkSecrets(ctx, o.app, s)
}

// parse returns the flags as a Spec without a source, and the variables. It reports
// everything that is wrong with them as far as the server does not matter.
func (o *options) parse() (s *workload.Spec, env map[string]string, err error) {
	cwd, err := workingDir()
	if err != nil {
		return nil, nil, err
	}
	s = &workload.Spec{
		Schema: workload.Schema, Name: o.name, Group: o.group, Clients: o.clients, Debug: o.app.Debug,
		Transport: workload.Transport(o.transport), TargetPort: o.targetPort,
		Proxy: workload.Proxy{
			Host: o.host, Port: o.proxyPort, Mode: o.proxyMode, EndpointPrefix: o.endpointPrefix,
			SessionTTL: workload.Duration(o.sessionTTL), Stateless: o.stateless,
			TrustProxyHeaders: o.trustProxyHeaders, AllowedHosts: o.allowedHosts,
		},
		Container: workload.Container{Network: o.network, MaxProcesses: o.maxProcesses, SkipGlobalIgnore: !o.ignoreGlobally, IsolateNetwork: o.isolateNetwork, AllowDockerGateway: o.allowGateway},
	}
	if o.given("target-host") {
		s.TargetHost = o.targetHost
	}
	c := &s.Container
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if o.memory != "" {
		memory, err := runflag.Memory(o.memory)
		if err != nil {
			note(fmt.Errorf("--memory: %w", err))
		}
		s.Container.Memory = memory
	}
	s.Container.CPUs, s.Container.PIDsLimit = o.cpus, o.pidsLimit
	if o.diskLimit != "" {
		limit, err := runflag.Disk(o.diskLimit)
		if err != nil {
			note(fmt.Errorf("--disk-limit: %w", err))
		}
		s.Container.DiskLimit = limit
	}
	if v := o.imageVerification; v != workload.VerifyWarn {
		s.Container.ImageVerification = v
		if v == "" {
			note(errors.New("--image-verification has no value: choose warn, enabled or disabled"))
		}
	}
	if o.given("max-processes") && (o.maxProcesses < 1 || o.maxProcesses > 1024) {
		note(fmt.Errorf("--max-processes %d: choose 1 to 1024", o.maxProcesses))
		c.MaxProcesses = 0
	}
	note(o.checkClients())
	if o.given("name") && o.name == "" {
		note(workload.ValidName(""))
	}
	env, err = o.environment()
	note(err)
	o.targets, err = o.parseSecrets()
	note(err)
	for _, value := range o.volumes {
		m, err := runflag.ParseMount(value, cwd)
		if err == nil {
			c.Mounts = append(c.Mounts, m)
		}
		note(err)
	}
	for _, value := range o.ports {
		port, err := runflag.ParsePort(value)
		if err == nil {
			c.Publish = append(c.Publish, port)
		}
		note(err)
	}
	c.Labels, err = runflag.ParseLabels(o.labels)
	note(err)
	s.Tools, err = o.parseTools()
	note(err)
	if len(o.webhooks) > 0 {
		s.Webhooks, err = runflag.LoadWebhooks(o.webhooks)
		note(err)
	}
	if o.given("audit-config") {
		s.Audit, err = runflag.LoadAudit(o.auditConfig)
		note(err)
	} else if o.enableAudit {
		s.Audit = &audit.Config{}
	}
	if o.given("authz-config") {
		if s.Policy, err = runflag.LoadPolicy(o.authzConfig); err != nil {
			note(fmt.Errorf("--authz-config: %w", err))
		}
	}
	if o.profile != "" {
		permissions, mounts, err := runflag.LoadPermissions(o.profile, cwd)
		note(err)
		permissions.Read, permissions.Write = nil, nil // they are mounts now
		c.Permissions = permissions
		c.Mounts = runflag.MergeMounts(mounts, c.Mounts)
	}
	o.caCert, err = readable("ca-cert", o.caCert)
	note(err)
	s.CABundle, err = readable("thv-ca-bundle", o.caBundle)
	if err == nil {
		if _, err = netguard.Transport(netguard.Options{CAFiles: s.CAFiles()}); err != nil {
			err = fmt.Errorf("--thv-ca-bundle: %w", err)
		}
	}
	note(err)
	s.Auth, err = o.auth.parse(o.given)
	note(err)
	authServer, external, err := readExternalAuth(o.authFile)
	note(err)
	s.ExternalAuth = external
	if authServer != nil {
		note(setAuthServer(o, s, authServer))
	}
	s.Telemetry, err = o.telemetry.parse(o.given, o.app.Env)
	note(err)
	if s.Telemetry != nil && s.Telemetry.Endpoint != "" {
		o.telemetryHeaders, err = o.telemetry.parseHeaders(o.app.Env)
		note(err)
	}
	o.remote, err = o.server.parse(s, o.given)
	note(err)
	note(check(*s))
	return s, env, errors.Join(errs...)
}

// environment reads --env-file, --env-file-dir and -e; the later wins.
func (o *options) environment() (map[string]string, error) {
	all := map[string]string{}
	var errs []error
	add := func(env map[string]string, err error) {
		maps.Copy(all, env)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if o.envFile != "" {
		add(runflag.LoadEnvFile(o.envFile))
	}
	if o.envFileDir != "" {
		add(runflag.LoadEnvDir(o.envFileDir))
	}
	add(runflag.ParseEnv(o.env, os.LookupEnv))
	return all, errors.Join(errs...)
}

// complete adds what the source gives to the Spec of the flags: flag > registry >
// default.
func (o *options) complete(s, found *workload.Spec) {
	s.Source, s.Image, s.Package, s.Remote = found.Source, found.Image, found.Package, found.Remote
	o.server.complete(s.Remote, o.remote)
	s.Args, s.Env = found.Args, found.Env
	s.Transport = cmp.Or(s.Transport, found.Transport)
	if s.Transport != workload.Stdio {
		s.TargetHost = cmp.Or(s.TargetHost, found.TargetHost)
		s.TargetPort = cmp.Or(s.TargetPort, found.TargetPort)
		s.TargetPath = found.TargetPath
	}
	s.Proxy.Port = cmp.Or(s.Proxy.Port, found.Proxy.Port)
	s.Proxy.Stateless = s.Proxy.Stateless || found.Proxy.Stateless
	if s.Remote != nil {
		return
	}
	c := &s.Container
	c.Provenance = found.Container.Provenance
	c.Mounts = runflag.MergeMounts(found.Container.Mounts, c.Mounts)
	c.Network = cmp.Or(c.Network, found.Container.Network)
	if o.profile == "" {
		c.Permissions = found.Container.Permissions
		if reflect.ValueOf(c.Permissions).IsZero() {
			// A profile without a network section grants none; no profile at all
			// is the profile network.
			c.Permissions, _ = runflag.BuiltinPermissions("network")
		}
	}
	if p := s.Package; p != nil {
		p.RuntimeImage, p.CACert = o.runtimeImage, o.caCert
		p.AddPackages = append(p.AddPackages, o.addPackages...) // beside the registry's
	}
}

// misplaced reports flags that do not apply to the kind of server.
func (o *options) misplaced(s *workload.Spec) error {
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
		if slices.ContainsFunc(slices.Collect(maps.Keys(o.targets)), func(target string) bool { return !isField(target) }) {
			errs = append(errs, errRemoteSecret)
		}
		if o.isolateNetwork {
			refuse("is for servers that run here, not for a remote URL", "isolate-network")
		}
		refuse("is for servers that run here, not for a remote URL", "volume", "ignore-globally", "print-resolved-overlays", "publish", "network", "permission-profile", "label", "target-host", "target-port", "max-processes", "memory", "cpus", "pids-limit", "disk-limit", "image-verification")
	} else {
		refuse("is for a remote server, not for one that runs here", remoteFlags()...)
	}
	return errors.Join(errs...)
}
