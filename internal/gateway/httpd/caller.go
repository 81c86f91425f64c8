package httpd

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
)

// SourceOf is where r came from.
func (c *Core) SourceOf(r *http.Request) exchange.Source { return SourceOf(r, c.TrustProxyHeaders) }

// Principal is the [exchange.Client.Principal] of the sender of r.
func Principal(r *http.Request) string {
	if c := exchange.CallerOf(r.Context()); c != nil {
		return c.Principal
	}
	return ""
}

// StreamContext is the context of r for a stream that has no end of its own. It ends, at
// the latest, when the caller's token is no longer accepted: the client opens the stream
// again, with a new token.
func StreamContext(r *http.Request) (context.Context, context.CancelFunc) {
	if c := exchange.CallerOf(r.Context()); c != nil {
		return context.WithDeadline(r.Context(), c.Expires)
	}
	return r.Context(), func() {}
}

// SourceOf is where r came from. trust is as for [ClientAddress].
func SourceOf(r *http.Request, trust bool) exchange.Source {
	address := r.RemoteAddr
	if client := forwardedFor(r, trust); client != "" {
		address = client
	}
	return exchange.Source{Address: address, UserAgent: r.UserAgent(), RequestID: single(r, "X-Request-Id")}
}
