package source

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/distribution/reference"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// usePackage fills the Spec from a package of an entry.
func (r *Resolution) usePackage(req Request, p *registry.Package) error {
	s := &r.Spec
	var err error
	if p.RegistryType == "oci" {
		s.Image, err = imageOf(p)
	} else {
		s.Package, err = packageOf(p)
	}
	if err != nil {
		return err
	}
	if s.Package != nil {
		s.Package.AddPackages = p.Hints.SystemPackages
	}
	if err := r.useTransport(req, p); err != nil {
		return err
	}
	s.Env = map[string]string{}
	for _, kv := range p.Environment {
		r.take(kv, false, s.Env)
	}
	if err := r.useRuntimeArguments(req, p); err != nil {
		return err
	}
	if err := r.useArguments(req, p); err != nil {
		return err
	}
	if err := r.usePermissions(req, p.Hints.Permissions); err != nil {
		return err
	}
	if s.Image != "" {
		r.useProvenance(p.Hints.Provenance)
	}
	s.Proxy.Port = p.Hints.ProxyPort
	s.Proxy.Stateless = p.Hints.Stateless && s.Transport != workload.Stdio
	if p.FileSHA256 != "" {
		r.notice("the registry gives a checksum of %s, which is not checked", p.Identifier)
	}
	return nil
}

// imageOf is a package's image reference. Until schema 2025-10-17 its parts were
// in three fields.
func imageOf(p *registry.Package) (string, error) {
	ref := p.Identifier
	if base := strings.TrimSuffix(strings.TrimPrefix(p.RegistryBaseURL, "https://"), "/"); base != "" && base != "docker.io" && !strings.HasPrefix(ref, base+"/") {
		ref = base + "/" + ref
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("the image %.200q is not an image reference: %w", ref, err)
	}
	if reference.IsNameOnly(named) && p.Version != "" {
		ref += ":" + p.Version
		if _, err := reference.ParseNormalizedNamed(ref); err != nil {
			return "", fmt.Errorf("the image %.200q is not an image reference: %w", ref, err)
		}
	}
	return ref, nil
}

// origins are where each kind of package is fetched from. A package of another
// place must not be taken from here: there it may belong to another program.
func origins(registryType string) (scheme string, hosts []string) {
	switch registryType {
	case "npm":
		return "npx", []string{"", "https://registry.npmjs.org"}
	case "pypi":
		return "uvx", []string{"", "https://pypi.org", "https://pypi.org/simple"}
	default:
		return "go", []string{""}
	}
}

func packageOf(p *registry.Package) (*workload.Package, error) {
	scheme, hosts := origins(p.RegistryType)
	fromHere := false
	for _, h := range hosts {
		fromHere = fromHere || strings.TrimSuffix(p.RegistryBaseURL, "/") == h
	}
	if !fromHere {
		return nil, fmt.Errorf("its package is at %s, and thv fetches %s packages from %s only", p.RegistryBaseURL, p.RegistryType, hosts[len(hosts)-1])
	}
	if scheme == "go" && isLocal(p.Identifier) || strings.ContainsAny(p.Identifier, ":\\") {
		return nil, fmt.Errorf("%.200q is not the name of a package", p.Identifier)
	}
	return &workload.Package{Scheme: scheme, Name: p.Identifier, Version: p.Version}, nil
}

// useTransport decides the server's transport and where it listens.
func (r *Resolution) useTransport(req Request, p *registry.Package) error {
	s := &r.Spec
	switch t := workload.Transport(p.Transport.Type); t {
	case workload.Stdio, workload.SSE, workload.StreamableHTTP:
		s.Transport = t
	case "":
		if s.Package != nil {
			s.Transport = workload.Stdio
		}
	default:
		return fmt.Errorf("its transport %.50q is not stdio, sse or streamable-http", t)
	}
	declared := s.Transport
	if req.Transport != "" {
		s.Transport = req.Transport
	}
	if p.Transport.URL == "" || s.Transport == workload.Stdio || declared == workload.Stdio {
		return nil
	}
	text, open := expand(p.Transport.URL, ownValues(p))
	if len(open) > 0 || variable.MatchString(text) {
		r.notice("where the server listens depends on the settings you choose (%s); say it with --target-port", p.Transport.URL)
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("by its entry the server listens at %.200q, which is not an http URL", text)
	}
	s.TargetPort = 80
	if u.Port() != "" {
		if s.TargetPort, err = strconv.Atoi(u.Port()); err != nil || s.TargetPort < 1 || s.TargetPort > 65535 {
			return fmt.Errorf("by its entry the server listens at %.200q, which has no port", text)
		}
	}
	if s.Transport == declared && u.Path != "/" {
		s.TargetPath = u.Path
	}
	return nil
}

// ownValues looks a transport URL's variables up among the package's arguments
// and environment variables, by name or value hint (server.json, transport).
func ownValues(p *registry.Package) func(string) (string, bool) {
	values := map[string]string{}
	note := func(name string, in registry.Input) {
		if name == "" {
			return
		}
		value, _ := expand(in.Value, declared(in.Variables))
		if value == "" {
			value = in.Default
		}
		values[name] = value
	}
	for _, a := range append(append([]registry.Argument{}, p.RuntimeArguments...), p.PackageArguments...) {
		note(a.Name, a.Input)
		note(strings.TrimLeft(a.Name, "-"), a.Input)
		note(a.ValueHint, a.Input)
		for name, v := range a.Variables {
			note(name, v)
		}
	}
	for _, kv := range p.Environment {
		note(kv.Name, kv.Input)
		for name, v := range kv.Variables {
			note(name, v)
		}
	}
	return func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
}
