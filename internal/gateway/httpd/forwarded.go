package httpd

import (
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

// Headers with which a reverse proxy describes the request that it received. Any client
// can send them, so they count only when the configuration states that all requests pass
// such a proxy.
const (
	headerForwardedHost   = "X-Forwarded-Host"
	headerForwardedPrefix = "X-Forwarded-Prefix"
)

// maxPrefix bounds a path in a header, in bytes.
const maxPrefix = 512

// Prefix is the path below which the client of r sees the gateway: the configured one, or
// the one that a trusted proxy removed.
func (c *Core) Prefix(r *http.Request) string {
	if c.Endpoint.Prefix != "" || !c.TrustProxyHeaders {
		return c.Endpoint.Prefix
	}
	prefix := strings.TrimRight(r.Header.Get(headerForwardedPrefix), "/")
	if prefix == "" || len(prefix) > maxPrefix || !endpoint.ValidPrefix(prefix) {
		return ""
	}
	return prefix
}

// isForwardedHost reports whether the client requested host from a trusted proxy: a page
// of that host is of the gateway's own origin.
func (g *Guard) isForwardedHost(r *http.Request, host string) bool {
	values := r.Header[headerForwardedHost]
	return g.trustForwarded && len(values) == 1 && host != "" && strings.EqualFold(values[0], host)
}
