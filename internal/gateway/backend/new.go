package backend

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
)

// Transports of remote servers, as they are written on the command line.
const (
	TransportStreamable = httpconn.TransportStreamable
	TransportSSE        = httpconn.TransportSSE
)

// The configurations of the transports.
type (
	// StdioConfig is of [NewStdio].
	StdioConfig = stdio.Config
	// StreamableConfig is of [NewStreamable].
	StreamableConfig = httpconn.StreamableConfig
	// SSEConfig is of [NewSSE].
	SSEConfig = httpconn.SSEConfig
)

// ErrNoProtocolOutput is [stdio.ErrNoProtocolOutput].
var ErrNoProtocolOutput = stdio.ErrNoProtocolOutput

// Detect is [httpconn.Detect].
func Detect(ctx context.Context, rawURL string, transport http.RoundTripper) (string, error) {
	return httpconn.Detect(ctx, rawURL, transport)
}

// NewStreamable is the backend for servers of the streamable HTTP transport
// (MCP, Transports, Streamable HTTP), in version 2026-07-28, which has no
// sessions, and in versions 2025-03-26 to 2025-11-25, where every Open is a
// session of its own at the server.
func NewStreamable(cfg StreamableConfig) exchange.Backend {
	cfg = cfg.WithDefaults()
	return newFailFast(newBridge(endpoints{httpconn.NewStreamable(cfg), httpconn.NewStateless(cfg), true}, cfg.Stateless, cfg.Log))
}

// NewSSE is the backend for servers of the HTTP+SSE transport (MCP 2024-11-05,
// Transports, HTTP with SSE): messages are POSTed, and everything that the server sends
// arrives on one stream. Every Open is a stream, and so a session, of its own. A
// stream that ends cannot be continued: what is in flight fails.
func NewSSE(cfg SSEConfig) exchange.Backend {
	return newFailFast(newBridge(endpoints{sessions: httpconn.NewSSE(cfg)}, true, orDiscard(cfg.Log)))
}

// NewStdio is the backend for servers that speak newline-delimited JSON-RPC on
// their standard input and output (MCP, Transports, stdio), of either era.
//
// A server of the session era knows one client: the one that initialized it. A
// process is therefore shared only by sessions it could not tell apart and could
// not send requests to; every other session has one of its own, and
// a session that asks for something only its own process may do is moved to one
// at that moment. In the stateless era a process is not a conversation, and all
// exchanges of a principal share one.
func NewStdio(cfg StdioConfig) exchange.Backend {
	pool := stdio.NewPool(cfg)
	return newBridge(endpoints{sessions: pool, stateless: pool.Stateless()}, false, orDiscard(cfg.Log))
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
