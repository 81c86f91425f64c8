package gateway

import (
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

// What a reverse proxy in front of us says of the request that it had. Anybody
// can write these headers, so they count only where the configuration says that
// all requests come through such a proxy.
const (
	headerForwardedHost   = "X-Forwarded-Host"
	headerForwardedPrefix = "X-Forwarded-Prefix"
)

// prefixOf is the path below which the client of r sees us: the configured one,
// or the one that a trusted proxy took off.
func (g *Gateway) prefixOf(r *http.Request) string {
	if g.cfg.Endpoint.Prefix != "" || !g.cfg.TrustProxyHeaders {
		return g.cfg.Endpoint.Prefix
	}
	prefix := strings.TrimRight(r.Header.Get(headerForwardedPrefix), "/")
	if prefix == "" || len(prefix) > maxPrefix || !endpoint.ValidPrefix(prefix) {
		return ""
	}
	return prefix
}

// maxPrefix bounds a path that a header names, in bytes.
const maxPrefix = 512

// sameAsForwarded: the host is the one that the client asked the proxy for, so
// its page is as good as one of our own.
func (g *guard) sameAsForwarded(r *http.Request, host string) bool {
	values := r.Header[headerForwardedHost]
	return g.trustForwarded && len(values) == 1 && host != "" && strings.EqualFold(values[0], host)
}
