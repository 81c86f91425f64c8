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
	// StdioConfig configures [NewStdio].
	StdioConfig = stdio.Config
	// StreamableConfig configures [NewStreamable].
	StreamableConfig = httpconn.StreamableConfig
	// SSEConfig configures [NewSSE].
	SSEConfig = httpconn.SSEConfig
)

// ErrNoProtocolOutput is [stdio.ErrNoProtocolOutput].
var ErrNoProtocolOutput = stdio.ErrNoProtocolOutput

// Detect is [httpconn.Detect].
func Detect(ctx context.Context, rawURL string, transport http.RoundTripper) (string, error) {
	return httpconn.Detect(ctx, rawURL, transport)
}

// NewStreamable returns the backend for a server of the streamable HTTP transport (MCP,
// Transports, Streamable HTTP). It supports version 2026-07-28, which has no sessions, and
// versions 2025-03-26 to 2025-11-25, where every Open begins a session at the server.
func NewStreamable(cfg StreamableConfig) exchange.Backend {
	cfg = cfg.WithDefaults()
	return newFailFast(newBridge(endpoints{httpconn.NewStreamable(cfg), httpconn.NewStateless(cfg), true}, cfg.Stateless, cfg.Log))
}

// NewSSE returns the backend for a server of the HTTP+SSE transport (MCP 2024-11-05,
// Transports, HTTP with SSE): messages are POSTed, and everything that the server sends
// arrives on one stream. Every Open opens a stream, which is a session. A stream that
// ends cannot be resumed: its pending requests fail.
func NewSSE(cfg SSEConfig) exchange.Backend {
	return newFailFast(newBridge(endpoints{sessions: httpconn.NewSSE(cfg)}, true, orDiscard(cfg.Log)))
}

// NewStdio returns the backend for a server that exchanges newline-delimited JSON-RPC on
// its standard input and output (MCP, Transports, stdio), in either era.
//
// A server process of the session era has one client: the one that initialized it.
// Sessions therefore share a process only if the server cannot distinguish them and cannot
// send them requests, or if all are of one client ([exchange.Client], OneProcess). Every
// other session has a process of its own. A session in a shared process moves to its own
// when it sends a request that requires one. In the stateless era a process has no
// sessions, and all exchanges of a principal share one.
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
