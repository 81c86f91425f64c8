// Package endpoint has the rules of a gateway's own HTTP endpoint: which front serves it,
// under which host names and below which path. The run configuration's validation and the
// gateway both apply them, so what the one accepts the other does.
package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"
)

// The proxy modes: which front serves the clients.
const (
	Streamable = "streamable-http"
	SSE        = "sse"
)

// The paths that a gateway serves. A request's path is compared without cleaning; one slash
// at its end is ignored.
const (
	PathMCP      = "/mcp"
	PathSSE      = "/sse"
	PathMessages = "/messages"
	PathHealth   = "/health"
	PathMetrics  = "/metrics" // when it is configured
)

// Config is what a person configures of an endpoint.
type Config struct {
	// Mode is [Streamable] or [SSE].
	Mode string
	// Prefix is prepended to the path that the SSE front sends its clients, for a
	// reverse proxy that serves the gateway below a path; "" for none.
	Prefix string
	// AllowedHosts are values of the Host header, with or without a port, that are
	// accepted beside the loopback names and the address of the connection.
	AllowedHosts []string
	// SessionTTL is how long a session lives without activity; 0 is the default.
	SessionTTL time.Duration
	// Stateless serves POST only, without sessions.
	Stateless bool
}

// Path is the path that clients of the mode connect to, without the prefix.
func (c Config) Path() string {
	if c.Mode == SSE {
		return PathSSE
	}
	return PathMCP
}

// Validate reports every fault of c, joined.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Mode != Streamable && c.Mode != SSE {
		add("proxy mode %q: choose %s or %s", c.Mode, Streamable, SSE)
	}
	if c.Stateless && c.Mode == SSE {
		add("proxy mode sse needs sessions; it cannot be combined with stateless")
	}
	if c.Prefix != "" && !ValidPrefix(c.Prefix) {
		add("endpoint prefix %q must be a path such as /tools/x, of visible ASCII characters", c.Prefix)
	}
	for _, host := range c.AllowedHosts {
		if _, _, ok := SplitHost(host); !ok {
			add("allowed host %q is not a name such as tools.example or tools.example:8443", host)
		}
	}
	if c.SessionTTL < 0 {
		add("session TTL %s: it must not be negative", c.SessionTTL)
	}
	return errors.Join(errs...)
}

// ValidPrefix reports whether p is a path that can stand before another one in an event
// of the SSE front. A second slash would turn it into a host of the sender's choice, a
// line break into an event of their own.
func ValidPrefix(p string) bool {
	if p == "" || p[0] != '/' || strings.Contains(p, "//") {
		return false
	}
	for _, c := range []byte(p) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`?#\"<>`, c) >= 0 {
			return false
		}
	}
	trimmed := strings.TrimRight(p, "/")
	return trimmed == "" || path.Clean(p) == trimmed
}

// SplitHost splits "host", "host:port" or "[v6]:port" (RFC 9110 section 7.2). The name is
// returned in lower case, without brackets and without the dot of the root.
func SplitHost(s string) (name, port string, ok bool) {
	name = s
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		name, port = s[:i], s[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", false
		}
	}
	if strings.HasPrefix(name, "[") {
		v6 := strings.TrimSuffix(name[1:], "]")
		if ip, err := netip.ParseAddr(v6); err != nil || !ip.Is6() || len(v6) != len(name)-2 {
			return "", "", false
		}
		return strings.ToLower(v6), port, true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || len(name) > 253 || strings.ContainsAny(name, ":/@[]%?#*,\\ ") {
		return "", "", false
	}
	return name, port, true
}
