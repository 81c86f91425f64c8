package workload

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

// namePattern: a name is a directory, a container's name and a label.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ValidName is an error when a workload or group cannot have that name.
func ValidName(name string) error {
	if !namePattern.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("name %q: use 1 to 63 lower-case letters, digits, dots, dashes and underscores, beginning with a letter or digit", name)
	}
	return nil
}

// Validate reports everything that is wrong with a Spec. It is the one check:
// `run`, --from-config, and the owner at start use it.
func Validate(s *Spec) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Schema != Schema {
		add("schema is %q; this version of thv reads %q", s.Schema, Schema)
	}
	if err := ValidName(s.Name); err != nil {
		errs = append(errs, err)
	}
	if s.Group != "" {
		if err := ValidName(s.Group); err != nil {
			add("group: %w", err)
		}
	}
	switch {
	case s.Image == "" && s.Remote == nil:
		add("neither an image nor a remote URL is given")
	case s.Image != "" && s.Remote != nil:
		add("an image and a remote URL are given; a workload has one of them")
	}
	if !slices.Contains([]Transport{Stdio, SSE, StreamableHTTP}, s.Transport) {
		add("transport %q: choose stdio, sse or streamable-http", s.Transport)
	}
	if s.Remote != nil {
		errs = append(errs, validateRemote(s))
	} else {
		errs = append(errs, validateContainer(s))
	}
	errs = append(errs, validateClients(s), s.Proxy.validate(), s.Endpoint().Validate(), validateAuth(s), validateAuthServer(s), validateCredentials(s), validateTelemetry(s), s.Tools.Config().Validate())
	if s.Policy != nil {
		if err := s.Policy.Validate(); err != nil {
			add("authorization: %w", err)
		}
	}
	if s.Webhooks != nil {
		errs = append(errs, s.Webhooks.Validate())
	}
	if s.Audit != nil {
		errs = append(errs, s.Audit.Validate())
	}
	return errors.Join(errs...)
}

func validateRemote(s *Spec) error {
	var errs []error
	u, err := url.Parse(s.Remote.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("remote URL %q is not an http(s) URL", s.Remote.URL))
	} else if u.User != nil || u.Fragment != "" {
		errs = append(errs, errors.New("the remote URL must not have user information or a fragment"))
	}
	if s.Transport == Stdio {
		errs = append(errs, errors.New("transport stdio: a remote server speaks sse or streamable-http"))
	}
	if len(s.Args) > 0 || len(s.Env) > 0 || len(s.SecretEnv) > 0 {
		errs = append(errs, errors.New("arguments and environment variables are for servers that run here, not for a remote URL"))
	}
	c := s.Container
	if len(c.Mounts) > 0 || len(c.Publish) > 0 || c.Network != "" || c.IsolateNetwork || c.AllowDockerGateway || c.ImageVerification != "" || c.Provenance != nil {
		errs = append(errs, errors.New("mounts, published ports, networks and verification of images are for containers, not for a remote URL"))
	}
	errs = append(errs, checkSecretRefs(s, s.Remote.SecretHeaders))
	return errors.Join(errs...)
}

// Bounds of Container.Memory, in bytes.
const (
	minMemory = 16 << 20
	maxMemory = 1 << 40
)

// Bounds of Container.PIDsLimit. The guest takes about ten.
const (
	minPIDs = 32
	maxPIDs = 1 << 22 // of the kernel
)

// Bounds of Container.DiskLimit, in bytes. The guest takes 4 MiB.
const (
	minDisk = 16 << 20
	maxDisk = 1 << 50
)

// maxProcesses bounds Container.MaxProcesses.
const maxProcesses = 1024

func validateContainer(s *Spec) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Transport == Stdio {
		if s.TargetPort != 0 {
			add("target port: a stdio server has none; choose --transport sse or streamable-http")
		}
		if s.TargetHost != "" {
			add("target host: a stdio server has none; choose --transport sse or streamable-http")
		}
		if s.Proxy.Stateless {
			add("stateless: a stdio server is not reached over HTTP, so it cannot be declared stateless")
		}
	} else {
		if s.TargetPort < 1 || s.TargetPort > 65535 {
			add("target port %d is not a port (1 to 65535)", s.TargetPort)
		}
		if s.TargetHost == "" || strings.ContainsAny(s.TargetHost, "/ ") {
			add("target host %q is not a host name or address", s.TargetHost)
		}
	}
	if err := s.Container.validateVerification(); err != nil {
		errs = append(errs, err)
	}
	if m := s.Container.Memory; m != 0 && (m < minMemory || m > maxMemory) {
		add("a memory limit of %d bytes: choose 16 MiB to 1 TiB (--memory 512m)", m)
	}
	if n := s.Container.CPUs; n != 0 && (n < 0.01 || n > 1024) {
		add("a limit of %g processors: choose 0.01 to 1024 (--cpus 1.5)", n)
	}
	if n := s.Container.PIDsLimit; n != 0 && (n < minPIDs || n > maxPIDs) {
		add("a limit of %d processes and threads: choose %d to %d (--pids-limit 4096)", n, minPIDs, maxPIDs)
	}
	if n := s.Container.DiskLimit; n != 0 && n != NoDiskLimit && (n < minDisk || n > maxDisk) {
		add("a limit of %d bytes of disk: choose 16 MiB to 1 PiB, or none (--disk-limit 20g)", n)
	}
	if n := s.Container.MaxProcesses; n != 0 && s.Transport != Stdio {
		add("maximum of processes: only a stdio server has a process for each of its sessions")
	} else if n < 0 || n > maxProcesses {
		add("maximum of processes %d: choose 1 to %d", n, maxProcesses)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if err := ValidEnvName(name); err != nil {
			errs = append(errs, err)
		}
		if err := ValidEnvValue(s.Env[name]); err != nil {
			add("environment variable %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.SecretEnv)) {
		if err := ValidEnvName(name); err != nil {
			errs = append(errs, err)
		}
		if _, both := s.Env[name]; both {
			add("environment variable %s is given as a value and as a secret", name)
		}
	}
	errs = append(errs, checkSecretRefs(s, s.SecretEnv))
	targets := map[string]bool{}
	for _, m := range s.Container.Mounts {
		if !filepath.IsAbs(m.Host) || strings.ContainsRune(m.Host, 0) {
			add("mount %s:%s: the host path is not absolute", m.Host, m.Container)
		}
		if err := ValidMountTarget(m.Container); err != nil {
			add("mount %s:%s: %w", m.Host, m.Container, err)
		}
		if !slices.Contains([]string{"", "z", "Z"}, m.Relabel) {
			add("mount %s:%s: relabel is z or Z, not %q", m.Host, m.Container, m.Relabel)
		}
		if targets[m.Container] {
			add("mount: %s is mounted twice", m.Container)
		}
		targets[m.Container] = true
	}
	for _, p := range s.Container.Publish {
		if p.Host < 0 || p.Host > 65535 || p.Container < 1 || p.Container > 65535 {
			add("publish %d:%d: ports are 1 to 65535", p.Host, p.Container)
		}
		if _, err := netip.ParseAddr(p.Address); err != nil && p.Address != "" {
			add("publish %d:%d: %q is not an IP address", p.Host, p.Container, p.Address)
		}
		if p.Container == s.TargetPort && s.Transport != Stdio {
			add("publish: port %d is the server's own; it is reached through the gateway only", p.Container)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Container.Labels)) {
		if err := ValidLabelKey(key); err != nil {
			errs = append(errs, err)
		}
		if err := ValidLabelValue(s.Container.Labels[key]); err != nil {
			add("label %s: %w", key, err)
		}
	}
	if n := s.Container.Network; n != "" && !networkPattern.MatchString(n) {
		add("network %q is not a network's name", n)
	}
	errs = append(errs, validateIsolation(s))
	return errors.Join(errs...)
}

// networkPattern is a network's name, or a mode of an engine such as container:NAME.
var networkPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}(:[a-zA-Z0-9_.,:=/-]{1,255})?$`)

func (p Proxy) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Port < 1 || p.Port > 65535 {
		add("proxy port %d is not a port (1 to 65535)", p.Port)
	}
	if p.Host == "" || strings.ContainsAny(p.Host, "/ ") {
		add("host %q is not an address to listen on", p.Host)
	}
	return errors.Join(errs...)
}

// Endpoint is what the gateway's own endpoint is configured with. The host of the resource
// URL is among the allowed ones.
func (s *Spec) Endpoint() endpoint.Config {
	p := s.Proxy
	hosts := slices.Clone(p.AllowedHosts)
	if host := s.Auth.host(); host != "" {
		hosts = append(hosts, host)
	}
	hosts = append(hosts, authServerHosts(s)...)
	return endpoint.Config{
		Mode: p.Mode, Prefix: p.EndpointPrefix, AllowedHosts: hosts, SessionTTL: time.Duration(p.SessionTTL), Stateless: p.Stateless,
	}
}

// envName: what every shell and program accepts (POSIX.1-2017, Base
// Definitions 8.1, and lower case, which programs use too).
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ValidEnvName is an error when a name of an environment variable is not portable.
func ValidEnvName(name string) error {
	if !envName.MatchString(name) {
		return fmt.Errorf("environment variable %q: a name has letters, digits and underscores and does not begin with a digit", name)
	}
	return nil
}

// maxEnvValue is in bytes. The kernel's own limit of one variable is 128 KiB (execve(2),
// MAX_ARG_STRLEN).
const maxEnvValue = 128<<10 - 256

// ValidEnvValue is an error when the value of an environment variable cannot be passed on.
func ValidEnvValue(v string) error {
	if strings.ContainsRune(v, 0) {
		return errors.New("a value cannot hold a NUL byte")
	}
	if len(v) > maxEnvValue {
		return fmt.Errorf("a value cannot be longer than %d bytes", maxEnvValue)
	}
	return nil
}

// labelKey: what engines and Kubernetes both accept.
var labelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)

// reservedLabels begin the labels that Toolhaven itself puts on containers.
const reservedLabels = "dev.toolhaven."

// ValidLabelKey is an error when engines would refuse the key of a label, or it is ours.
func ValidLabelKey(key string) error {
	if !labelKey.MatchString(key) {
		return fmt.Errorf("label %q: a key has letters, digits, dots, dashes, underscores and slashes", key)
	}
	if strings.HasPrefix(key, reservedLabels) {
		return fmt.Errorf("label %q: keys that begin with %s are ours", key, reservedLabels)
	}
	return nil
}

// ValidLabelValue is an error when the value of a label has more than one line.
func ValidLabelValue(value string) error {
	if strings.ContainsAny(value, "\x00\r\n") {
		return errors.New("a value is one line")
	}
	return nil
}

// ValidMountTarget is an error when a path in the container cannot be mounted over.
func ValidMountTarget(target string) error {
	switch {
	case !path.IsAbs(target):
		return fmt.Errorf("the container path %q is not absolute", target)
	case path.Clean(target) != target:
		return fmt.Errorf("the container path %q is not in its shortest form, %s", target, path.Clean(target))
	case target == "/":
		return errors.New("the container's root cannot be mounted over")
	case target == "/.thv" || strings.HasPrefix(target, "/.thv/"):
		return errors.New("/.thv in the container is ours")
	case target == "/dev":
		return errors.New("the container's /dev cannot be mounted over")
	}
	for _, system := range []string{"/proc", "/sys"} {
		if target == system || strings.HasPrefix(target, system+"/") {
			return fmt.Errorf("%s in the container is the kernel's, and cannot be mounted over", system)
		}
	}
	return nil
}
