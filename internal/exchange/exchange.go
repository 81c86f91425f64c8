// Package exchange holds the types that the fronts, the stages and the backends of the
// gateway share.
//
// A front turns the bytes of a client into an [Exchange]: one request together with
// everything that belongs to it. A [Stage] inspects it, and may change, refuse or observe
// it. A [Conn] (session era) or a [Backend] (stateless era) sends it to the server. Each of
// them knows these types and none of the others, so any front works with any backend.
package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Client identifies the sender of a request: enough for a backend to open a connection
// on its behalf, and to distinguish two clients.
type Client struct {
	// Principal is that of [Caller]; "" is the local user when no authentication is
	// configured.
	Principal string
	// Version is the protocol version that the client requested. It determines the
	// client's era: messages to and from the client are of that version.
	Version mcp.Version
	// Capabilities and Info are the client's own declarations, raw
	// (InitializeRequest.params.capabilities and clientInfo).
	Capabilities json.RawMessage
	Info         json.RawMessage
	// LivenessCheck marks the gateway's own session, which checks that the server
	// responds. Where sessions have to make room for others, it does so last.
	LivenessCheck bool
	// OneProcess marks a session on behalf of a client of the stateless era. Sessions
	// of the same principal, capabilities and info are then of one client, and a backend
	// that starts processes serves them in one.
	OneProcess bool
}

// Exchange is one request on its way from a client to a server. It has exactly one
// outcome: the response that a [Handler] returns, or an error that the front turns into
// one.
//
// Cancelling the context given to Do means that the client cancelled the request; the
// backend cancels it at the server.
type Exchange struct {
	Client *Client
	// Caller is the identity that the token of this request proves; nil without
	// authentication. A session's requests may have tokens with other claims than its
	// first one had.
	Caller *Caller
	// Request carries the client's own id; the response must carry it too. Its
	// params are those of the client's era: of the stateless era with a complete
	// _meta.
	Request *mcp.Message
	// Meta is the request's _meta, read from its params. It is read once: nothing
	// behind the front looks into params for what Meta holds.
	Meta mcp.Meta
	// Headers are the Mcp-Param-* headers of a stateless request; nil for none.
	Headers http.Header
	// Source is where the request came from.
	Source Source
	// TraceID identifies the trace that the request belongs to, in hexadecimal (W3C Trace
	// Context section 3.2.2.3); "" without tracing.
	TraceID string
	// Peer receives the notifications that belong to this exchange and forwards
	// the server's requests (sampling, elicitation, roots) to the client.
	Peer Peer

	// The front sets one of the two. Open, when it is set, ends the exchange: it opens
	// a session, or needs none. Otherwise Conn.Do does. A stage may pass on a changed
	// copy of an exchange, so Open receives the one to send.
	Open Handler
	Conn Conn
}

// Source is the origin of a request, for records of it. Nothing is decided by it: except for
// Address, the client chose it.
type Source struct {
	// Address is the host and port of the connection, or the IP address that a trusted proxy
	// states.
	Address string

	UserAgent, RequestID string
}

// Handler processes an exchange and returns its outcome; a [Stage] wraps one.
type Handler func(ctx context.Context, x *Exchange) (*mcp.Message, error)

// Stage inspects an exchange, and may change, refuse or observe it, before and after
// the next handler. The order of the stages is defined in one place: gateway.New.
type Stage func(next Handler) Handler

// Deliver is the last [Handler]: it sends the exchange where its front directed it, with the
// caller in the context.
func Deliver(ctx context.Context, x *Exchange) (*mcp.Message, error) {
	if x.Caller != nil {
		ctx = WithCaller(ctx, x.Caller)
	}
	if x.Open != nil {
		return x.Open(ctx, x)
	}
	return x.Conn.Do(ctx, x)
}

// Forbid returns the error of a stage that denies a request to its caller, with the HTTP
// status 403 (MCP, Authorization, Error Handling).
func Forbid(format string, args ...any) error {
	return &mcp.Error{Code: mcp.CodeForbidden, Message: fmt.Sprintf(format, args...), Status: http.StatusForbidden}
}
