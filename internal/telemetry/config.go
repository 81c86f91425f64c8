// Package telemetry is the gateway's stage that measures requests: traces and metrics of
// OpenTelemetry, sent by OTLP or served at /metrics. Names follow the semantic conventions
// for MCP (OpenTelemetry semantic-conventions-genai, docs/gen-ai/mcp.md) and, for existing
// dashboards, the names that they had before.
//
// [Telemetry.HTTP] inspects HTTP requests and notes what only they have. [Telemetry.Stage]
// inspects exchanges: it makes the span of a request and records the metrics.
// [Telemetry.ServerStage] makes the span of the request to the server, and puts its context
// into the request's _meta. None of them fails a request, or waits for an exporter.
//
// Labels of metrics are bounded: a method, version or error that is not a known one, and a
// name beyond the limit, has the value _OTHER.
package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Config is what a person configures. Its JSON form is a part of the run configuration.
type Config struct {
	// Endpoint is where an OTLP collector receives: a URL, or host and port. "" sends
	// nothing.
	Endpoint string `json:"endpoint,omitempty"`
	// Protocol is [GRPC] or [HTTP]; "" follows from Endpoint, see [Config.Target].
	Protocol string `json:"protocol,omitempty"`
	// Insecure sends plain HTTP instead of HTTPS.
	Insecure bool `json:"insecure,omitempty"`
	// Headers are sent with every export. The values are references to secrets.
	Headers map[string]string `json:"headers,omitempty"`
	// ServiceName is service.name of the resource; "" is thv- and the workload's name.
	ServiceName string `json:"serviceName,omitempty"`
	// SamplingRate is the share of traces that are sampled, 0 to 1, among those that begin
	// here; nil is DefaultSamplingRate. A request that belongs to a trace is sampled as its
	// parent is.
	SamplingRate *float64 `json:"samplingRate,omitempty"`
	// Tracing and Metrics select what is sent to Endpoint; nil is true.
	Tracing *bool `json:"tracingEnabled,omitempty"`
	Metrics *bool `json:"metricsEnabled,omitempty"`
	// Prometheus serves the metrics at /metrics.
	Prometheus bool `json:"enablePrometheusMetricsPath,omitempty"`
	// Attributes are attributes of the resource.
	Attributes map[string]string `json:"customAttributes,omitempty"`
	// EnvVars are names of environment variables whose values are in spans.
	EnvVars []string `json:"environmentVariables,omitempty"`
	// LegacyAttributes adds the earlier names of attributes to spans; nil is true.
	LegacyAttributes *bool `json:"useLegacyAttributes,omitempty"`
}

// DefaultSamplingRate is used when no rate is configured.
const DefaultSamplingRate = 0.1

// Protocols of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// Ports of OTLP, without one in the endpoint (OTLP specification).
const (
	portGRPC = "4317"
	portHTTP = "4318"
)

const (
	maxText  = 256 // of a name or value in the configuration, in bytes
	maxItems = 64  // of a list in the configuration
)

func isOn(b *bool) bool { return b == nil || *b }

// SendsTraces and SendsMetrics report what is sent to the endpoint.
func (c *Config) SendsTraces() bool { return c.Endpoint != "" && isOn(c.Tracing) }

// SendsMetrics is described at SendsTraces.
func (c *Config) SendsMetrics() bool { return c.Endpoint != "" && isOn(c.Metrics) }

func (c *Config) samplingRate() float64 {
	if c.SamplingRate == nil {
		return DefaultSamplingRate
	}
	return *c.SamplingRate
}

// Target is where and how telemetry is sent.
type Target struct {
	URL  url.URL // http or https; its path is the base of the paths of the signals
	GRPC bool
}

// String is the URL, for logs.
func (t Target) String() string { return t.URL.String() }

// Target interprets Endpoint. The rule:
//
//   - The protocol is Protocol if that is set. Otherwise it is gRPC for a URL that begins
//     with grpc:// or has the port 4317 and no path, and HTTP for every other one.
//   - The connection uses TLS, unless Insecure is set. http:// needs Insecure, except for
//     this machine's own addresses.
//   - Without a scheme the port is by default the protocol's (4317, 4318), otherwise the
//     scheme's.
func (c *Config) Target() (Target, error) {
	var t Target
	text := c.Endpoint
	scheme, _, hasScheme := strings.Cut(text, "://")
	if !hasScheme {
		scheme, text = "", "//"+text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"", "http", "https", "grpc"}, scheme):
		// The text may hold a password: it is not repeated.
		return t, errors.New("the endpoint is not a URL such as https://collector.example.com:4318, or a host and port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return t, errors.New("the endpoint must not have user information, a query or a fragment; credentials are given by --otel-headers")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return t, fmt.Errorf("the endpoint's port %s is not a port (1 to 65535)", port)
		}
	}
	base := strings.TrimRight(u.Path, "/")
	t.GRPC = scheme == "grpc" || base == "" && u.Port() == portGRPC
	if c.Protocol != "" {
		t.GRPC = c.Protocol == GRPC
	}
	if t.GRPC && base != "" {
		return t, fmt.Errorf("the endpoint has the path %q; gRPC has none", base)
	}
	plain := c.Insecure || scheme == "http"
	if plain && !c.Insecure && !isThisMachine(u.Hostname()) {
		return t, errors.New("the endpoint is plain HTTP; write https://, or allow it with --otel-insecure")
	}
	t.URL = url.URL{Scheme: "https", Host: u.Host, Path: base}
	if plain {
		t.URL.Scheme = "http"
	}
	if u.Port() == "" && (scheme == "" || scheme == "grpc") {
		port := portHTTP
		if t.GRPC {
			port = portGRPC
		}
		t.URL.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return t, nil
}

func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Validate returns everything that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("telemetry: "+format, args...)) }
	if c.Endpoint == "" && !c.Prometheus {
		add("there is nothing to send to; give --otel-endpoint, or --otel-enable-prometheus-metrics-path")
	}
	if !slices.Contains([]string{"", GRPC, HTTP}, c.Protocol) {
		add("protocol %q: choose %s or %s", c.Protocol, GRPC, HTTP)
	} else if c.Endpoint != "" {
		if _, err := c.Target(); err != nil {
			add("%w", err)
		}
		if !isOn(c.Tracing) && !isOn(c.Metrics) {
			add("traces and metrics are both disabled, so nothing is sent to the endpoint; leave it out")
		}
	}
	if c.Endpoint == "" && len(c.Headers) > 0 {
		add("headers are for an endpoint, which is missing (--otel-endpoint)")
	}
	if r := c.samplingRate(); !(r >= 0 && r <= 1) {
		add("sampling rate %v: choose 0.0 to 1.0", r)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if err := ValidHeader(name, ""); err != nil {
			add("%w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Attributes)) {
		if key == "" || !isText(key) || !isText(c.Attributes[key]) {
			add("attribute %q: names and values have at most %d bytes and no control characters, and a name is not empty", cut(key), maxText)
		}
	}
	if !isText(c.ServiceName) {
		add("the service name has at most %d bytes and no control characters", maxText)
	}
	if n := max(len(c.Headers), len(c.Attributes), len(c.EnvVars)); n > maxItems {
		add("%d headers, attributes or variables: at most %d are possible", n, maxItems)
	}
	return errors.Join(errs...)
}

// reserved are fields that the protocol itself sends.
var reserved = map[string]bool{
	"host": true, "connection": true, "content-length": true, "content-type": true, "content-encoding": true,
	"transfer-encoding": true, "te": true, "trailer": true, "upgrade": true, "keep-alive": true,
}

// isHeaderName reports whether s is a field name (RFC 9110 section 5.6.2) that can be part of
// the name of a secret too.
func isHeaderName(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	})
}

// ValidHeader is an error when a header cannot be sent to a collector. The error does not
// have the value.
func ValidHeader(name, value string) error {
	switch {
	case !isHeaderName(name):
		return fmt.Errorf("header %q: a name has letters, digits, dashes, dots and underscores", cut(name))
	case reserved[strings.ToLower(name)]:
		return fmt.Errorf("header %q: the exporter itself sends it", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("header %q: its value has control characters", name)
	}
	return nil
}

func isText(s string) bool {
	return len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func cut(s string) string { return s[:min(len(s), 64)] }

// serviceName is service.name of the resource.
func (c *Config) serviceName(workload string) string { return cmp.Or(c.ServiceName, "thv-"+workload) }
