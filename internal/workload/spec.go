// Package workload has the description of a workload and the rules for it.
//
// A [Spec] is the whole description. The flags of run compile to it, a registry entry
// fills it, export writes it, --from-config reads it, and the process that owns the
// workload (package owner) reads nothing else. Secrets are in it as references only. A
// [Status] is what is true of a workload now; it is computed at each request and never
// stored.
package workload

import (
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/webhook"
)

// Schema is the version of the run configuration's format.
const Schema = "toolhaven.dev/run/v1"

// Spec is a workload's run configuration. Its JSON form is what export writes
// and --from-config reads. Fields that do not apply are left out.
type Spec struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	Group  string `json:"group,omitempty"`
	// Clients are the MCP clients whose configuration has the workload, of those that are
	// set up: names of package clientconfig, or only [NoClients]; empty for all.
	Clients []string `json:"clients,omitempty"`

	// Source records the argument of run, for people and for upgrades.
	Source Source `json:"source"`

	// Exactly one of Image and Remote is set. An image built from a package
	// keeps how it was built in Package.
	Image   string   `json:"image,omitempty"`
	Package *Package `json:"package,omitempty"`
	Remote  *Remote  `json:"remote,omitempty"`
	// Resolved is what Image or Package meant when it was run or upgraded last; Previous is
	// what ran before the last upgrade. Neither is exported.
	Resolved *Resolved `json:"resolved,omitempty"`
	Previous *Resolved `json:"previous,omitempty"`

	// Args follow the image's entry point.
	Args []string `json:"args,omitempty"`
	// Env are environment variables with plain values; SecretEnv those whose value is a
	// secret, by its reference: workload/NAME/KEY, or secret/NAME for one of the user's.
	Env       map[string]string `json:"env,omitempty"`
	SecretEnv map[string]string `json:"secretEnv,omitempty"`

	// Transport is the server's: stdio, sse or streamable-http.
	Transport Transport `json:"transport"`
	// TargetHost and TargetPort are where an HTTP server listens, seen from
	// inside its container.
	TargetHost string `json:"targetHost,omitempty"`
	TargetPort int    `json:"targetPort,omitempty"`
	// TargetPath is the path of the server's MCP endpoint; "" is /mcp, or /sse.
	TargetPath string `json:"targetPath,omitempty"`

	Proxy Proxy `json:"proxy"`
	// Auth is how clients are authenticated; nil accepts every client.
	Auth *Auth `json:"auth,omitempty"`
	// TokenExchange exchanges the tokens of clients for those of the server; nil sends the
	// server none.
	TokenExchange *TokenExchange `json:"tokenExchange,omitempty"`
	// AuthServer is the embeddedAuthServer resource of --auth: the authorization server that
	// issues the clients' tokens; nil is none. Auth names it as the issuer.
	AuthServer *externalauth.EmbeddedAuthServer `json:"authServer,omitempty"`
	// ExternalAuth is the outgoing resource of --auth: how the gateway authenticates at the
	// server. Its secrets are the user's, NAME/KEY. nil is none.
	ExternalAuth *externalauth.Spec `json:"externalAuth,omitempty"`
	// CABundle is a PEM file of authorities that the gateway trusts beside the system's,
	// in every HTTP request of its own.
	CABundle  string    `json:"caBundle,omitempty"`
	Container Container `json:"container,omitzero"`
	Tools     Tools     `json:"tools,omitzero"`
	// Policy is the content of --authz-config; nil authorizes every request.
	Policy *policy.Config `json:"policy,omitempty"`
	// Webhooks are those of --webhook-config; nil calls none.
	Webhooks *webhook.Config `json:"webhooks,omitempty"`
	// Audit is the content of --audit-config; nil records nothing.
	Audit *audit.Config `json:"audit,omitempty"`
	// Telemetry is that of the --otel options; nil measures nothing.
	Telemetry *telemetry.Config `json:"telemetry,omitempty"`

	Debug bool `json:"debug,omitempty"`
}

// Transport is a transport of MCP.
type Transport string

// The transports of the specification.
const (
	Stdio          Transport = "stdio"
	SSE            Transport = "sse"
	StreamableHTTP Transport = "streamable-http"
)

// Source is what a Spec was made from.
type Source struct {
	// Kind is registry, image, package, config or remote.
	Kind string `json:"kind"`
	// Ref is what the person wrote: a server's name, an image reference,
	// npx://package, a URL, or a file.
	Ref string `json:"ref"`
	// Registry, Version: where a registry name was found, and which version.
	Registry string `json:"registry,omitempty"`
	Version  string `json:"version,omitempty"`
}

// Package is how an image is built from a package.
type Package struct {
	Scheme       string   `json:"scheme"` // uvx, npx or go
	Name         string   `json:"name"`   // package name, or a path for go
	Version      string   `json:"version,omitempty"`
	RuntimeImage string   `json:"runtimeImage,omitempty"`
	AddPackages  []string `json:"addPackages,omitempty"`
	CACert       string   `json:"caCert,omitempty"` // path
}

// Remote is a server that runs elsewhere.
type Remote struct {
	URL string `json:"url"`
	// Headers are sent with every request; SecretHeaders take their value from
	// the secrets store.
	Headers       map[string]string `json:"headers,omitempty"`
	SecretHeaders map[string]string `json:"secretHeaders,omitempty"`
	// BearerToken is the reference of a token in the secrets store; BearerTokenFile is the
	// absolute path of a file with one.
	BearerToken     string `json:"bearerToken,omitempty"`
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
	// Auth is how the user logs in; nil for a server that needs no login.
	Auth *RemoteAuth `json:"auth,omitempty"`
}

// Proxy is the gateway's face toward clients.
type Proxy struct {
	Host string `json:"host"` // address to listen on; default 127.0.0.1
	Port int    `json:"port"`
	// Mode is streamable-http or sse.
	Mode           string   `json:"mode"`
	EndpointPrefix string   `json:"endpointPrefix,omitempty"`
	SessionTTL     Duration `json:"sessionTTL,omitempty"` // 0 is 2h
	Stateless      bool     `json:"stateless,omitempty"`
	// TrustProxyHeaders: X-Forwarded-* of a reverse proxy are used.
	TrustProxyHeaders bool `json:"trustProxyHeaders,omitempty"`
	// AllowedHosts are Host header values accepted beside the loopback names
	// and the address listened on.
	AllowedHosts []string `json:"allowedHosts,omitempty"`
}

// Container is how the container is made.
type Container struct {
	Labels  map[string]string `json:"labels,omitempty"`
	Mounts  []Mount           `json:"mounts,omitempty"`
	Publish []Port            `json:"publish,omitempty"`
	// SkipGlobalIgnore: the user's own ignore patterns are not applied to the mounts, only
	// those of their .thvignore files.
	SkipGlobalIgnore bool `json:"skipGlobalIgnore,omitempty"`
	// Network is the value of --network; "" follows the permissions.
	Network     string      `json:"network,omitempty"`
	Permissions Permissions `json:"permissions,omitzero"`
	// IsolateNetwork enforces what the permissions list of the network (package egress).
	IsolateNetwork bool `json:"isolateNetwork,omitempty"`
	// AllowDockerGateway opens the container engine's gateway in an isolated network.
	AllowDockerGateway bool `json:"allowDockerGateway,omitempty"`
	// ImageVerification is the value of --image-verification; "" is warn. Provenance is who
	// signs the image, by the registry's entry; nil is not known.
	ImageVerification string      `json:"imageVerification,omitempty"`
	Provenance        *Provenance `json:"provenance,omitempty"`
	// Memory bounds the container's memory, in bytes; 0 is 2 GiB. CPUs bounds its processors,
	// such as 1.5; 0 is no bound.
	Memory int64   `json:"memory,omitempty"`
	CPUs   float64 `json:"cpus,omitempty"`
	// PIDsLimit bounds the processes and threads in the container; 0 is 1,024.
	PIDsLimit int64 `json:"pidsLimit,omitempty"`
	// DiskLimit bounds what the server writes in its container, in bytes; 0 is 10 GiB,
	// NoDiskLimit is no bound.
	DiskLimit int64 `json:"diskLimit,omitempty"`
	// MaxProcesses bounds the processes of a stdio server; 0 is 32.
	MaxProcesses int `json:"maxProcesses,omitempty"`
}

// Mount makes a host path visible in the container.
type Mount struct {
	Host      string `json:"host"` // absolute
	Container string `json:"container"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	Relabel   string `json:"relabel,omitempty"` // z or Z
}

// Permissions is a permission profile: what a server may reach. The JSON form
// is the one people have today.
type Permissions struct {
	Name       string   `json:"name,omitempty"`
	Read       []string `json:"read,omitempty"`
	Write      []string `json:"write,omitempty"`
	Network    *Network `json:"network,omitempty"`
	Privileged bool     `json:"privileged,omitempty"`
}

// Network is the network part of a permission profile.
type Network struct {
	Mode     string    `json:"mode,omitempty"`
	Outbound *Outbound `json:"outbound,omitempty"`
	Inbound  *Inbound  `json:"inbound,omitempty"`
}

// Outbound lists where a server may connect to.
type Outbound struct {
	InsecureAllowAll bool     `json:"insecure_allow_all,omitempty"`
	AllowHost        []string `json:"allow_host,omitempty"`
	AllowPort        []int    `json:"allow_port,omitempty"`
}

// Inbound lists the host names under which a server may be reached.
type Inbound struct {
	AllowHost []string `json:"allow_host,omitempty"`
}

// Duration is a time.Duration whose JSON form is text such as "30m".
type Duration time.Duration

// MarshalJSON writes the duration as Go writes it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a duration such as "2h".
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// URL is where a client reaches the workload. It depends on the Spec alone, so
// it is the same whenever the workload runs. A wildcard address is shown as the
// loopback address of its family.
func (s *Spec) URL() string {
	host := s.Proxy.Host
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	// EndpointPrefix is for clients that come through a reverse proxy, which removes it;
	// here there is none.
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(s.Proxy.Port)), Path: s.Endpoint().Path()}
	return u.String()
}

// Tools selects and renames the tools that clients see (package toolset). The zero value
// shows all tools unchanged.
type Tools struct {
	// Filter are the names that clients see, after Override; empty is all tools.
	Filter []string `json:"filter,omitempty"`
	// Override is the content of --tools-override, by the server's own name of a tool.
	Override map[string]toolset.Override `json:"override,omitempty"`
	// Pin hides tools that have changed since they were first seen or accepted.
	Pin bool `json:"pin,omitempty"`
}

// Config is what the gateway's stage is configured with.
func (t Tools) Config() toolset.Config {
	return toolset.Config{Filter: t.Filter, Overrides: t.Override, Pin: t.Pin}
}
