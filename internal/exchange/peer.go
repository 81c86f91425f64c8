package exchange

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// MaxQuestions bounds the requests of one server that wait for one client's answers at the
// same time.
const MaxQuestions = 64

// Peer sends messages of the server to a client: within one exchange, or within a whole
// session for messages that belong to no exchange. An implementation embeds
// [PeerDefaults] for the methods that it does not need.
type Peer interface {
	// Notify sends a server's notification to the client. It does not block on a slow
	// client; what cannot be delivered is dropped and logged. The message is not kept.
	Notify(*mcp.Message)
	// AwaitRoom waits until the client has read enough for further notifications to be
	// delivered. It returns nil when that is so, also after the end of ctx, and when there
	// is nothing to wait for, as for a client that is gone. Otherwise it returns the cause
	// of the end of ctx. A transport that can hold the server back calls it after Notify.
	AwaitRoom(ctx context.Context) error
	// Ask sends a server's request to the client and waits for the response. The
	// request's id is the server's; the front uses one of its own toward the client,
	// and the response carries the server's id again. The error is an *mcp.Error when
	// the request cannot be sent to this client. Cancelling the context cancels the
	// request: the front notifies the client, with the id that the client received.
	// The caller ends the context, at the latest when the response was forwarded: until
	// then the response counts as memory that the gateway holds.
	Ask(context.Context, *mcp.Message) (*mcp.Message, error)
	// Hold reserves memory for bytes that are kept until the client has answered, until
	// release is called. The error is an *mcp.Error.
	Hold(bytes int) (release func(), err error)
	// OnLogLevel registers f, for a client that continues an exchange in further
	// requests (MCP 2026-07-28, Multi Round-Trip Requests). f is called with the log
	// level of each of them, "" for none, before its answers arrive, and at once when
	// one was received already.
	OnLogLevel(f func(level string))
}

// PeerDefaults implements the optional methods of [Peer]: notifications are always
// delivered, memory is not limited, and an exchange is one request.
type PeerDefaults struct{}

// AwaitRoom implements [Peer].
func (PeerDefaults) AwaitRoom(context.Context) error { return nil }

// Hold implements [Peer].
func (PeerDefaults) Hold(int) (release func(), err error) { return func() {}, nil }

// OnLogLevel implements [Peer].
func (PeerDefaults) OnLogLevel(func(string)) {}
