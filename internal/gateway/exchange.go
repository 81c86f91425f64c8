package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Client is what a front knows about the one that calls: enough for a backend
// to open a connection on its behalf, and to tell two callers apart.
type Client struct {
	// Principal names who is calling; "" is the local user when nothing
	// authenticates.
	Principal string
	// Version is the protocol version the client asked for. It also tells the
	// era of the client: messages to and from it are of that version.
	Version mcp.Version
	// Capabilities and Info are the client's own declarations, raw
	// (InitializeRequest.params.capabilities and clientInfo).
	Capabilities json.RawMessage
	Info         json.RawMessage
}

// Exchange is one request on its way from a client to a server and everything
// that belongs to it. A front makes it, the stages look at it, a [Conn] plays
// it out. It has exactly one outcome: the response that Do returns, or an error
// that the front turns into one.
//
// Cancelling the context given to Do means that the client cancelled the
// request; the backend tells the server.
type Exchange struct {
	Client *Client
	// Request carries the client's own id; the response must carry it too. Its
	// params are those of the client's era: of the stateless era with a complete
	// _meta.
	Request *mcp.Message
	// Headers are the Mcp-Param-* headers of a stateless request; nil for none.
	Headers http.Header
	// Peer receives the notifications that belong to this exchange and puts
	// the server's questions (sampling, elicitation, roots) to the client.
	Peer Peer

	// How the front wants the exchange to end: by open, which opens a session or
	// needs none, when it is set, otherwise by conn.Do.
	open func(context.Context) (*mcp.Message, error)
	conn Conn
}

// Peer is the way back to a client: of one exchange, or of a whole session for
// messages that belong to no exchange.
type Peer interface {
	// Notify passes a server's notification to the client. It does not block
	// on a slow client; what cannot be delivered is dropped and logged. The
	// message is not kept.
	Notify(*mcp.Message)
	// Ask puts a server's request to the client and waits for the answer. The
	// question's id is the server's; the front uses one of its own toward the
	// client and the answer carries the server's id again. The error is an
	// *mcp.Error when the client cannot be asked. Cancelling the context
	// withdraws the question: the front tells the client, with the id that the
	// client knows it by. The caller ends the context, at the latest when the answer
	// has gone on: so long is the answer counted among what the gateway holds.
	Ask(context.Context, *mcp.Message) (*mcp.Message, error)
}

// Holder is a [Peer] that knows whether there is memory for what is kept while its
// client is asked.
type Holder interface {
	// Hold takes room for so many bytes that are kept beside the questions, until
	// release gives it back. The error is an *mcp.Error.
	Hold(bytes int) (release func(), err error)
}

// Continued is a [Peer] whose client may go on with the exchange in further requests
// (MCP 2026-07-28, Multi Round-Trip Requests).
type Continued interface {
	// OnLogLevel has f called with the log level that each of them asks for, "" for
	// none, before its answers arrive; at once when there has been one.
	OnLogLevel(f func(level string))
}

// Backend reaches one server, whichever era it speaks. Its implementations are
// in gateway/backend.
type Backend interface {
	// Open begins a session for a client of the session era: it performs the
	// protocol's handshake with the server on behalf of client and returns the
	// connection. Messages of the server that belong to no exchange go to
	// session.
	Open(ctx context.Context, client *Client, session Peer) (Conn, error)
	// Do plays out a request of a client of the stateless era, which has no
	// session: everything that the server needs to know comes with it. Otherwise
	// it is as [Conn.Do]. The result is of the stateless era. A
	// subscriptions/listen ends when ctx does, or the server ends it; its
	// messages go to the exchange's Peer.
	Do(ctx context.Context, x *Exchange) (*mcp.Message, error)
	// Close ends every connection. It is called once.
	Close() error
}

// Crowded is a [Backend] in which a call that waits for its client's answers takes up
// what others wait for.
type Crowded interface {
	// WhenCrowded says how to make room: makeRoom ends the call that has waited for
	// its client longest, if there is one. It is called once, before anything else.
	WhenCrowded(makeRoom func())
}

// Resumer is a [Backend] that can continue sessions which another process began.
type Resumer interface {
	// Resume continues the session that handle, of [Resumable], names, without a
	// handshake: client is as it was at the beginning. Otherwise it is as Open.
	// Whether the server still knows the session shows at the first message. The
	// error is [ErrNotResumable] when there is nothing to continue.
	Resume(ctx context.Context, client *Client, handle []byte, session Peer) (Conn, error)
}

// ErrNotResumable: the session cannot be continued; its client begins another.
var ErrNotResumable = errors.New("the session cannot be continued")

// Resumable is a [Conn] whose session another process can continue.
type Resumable interface {
	// Handle is what [Resumer.Resume] needs, beside the client, to continue the
	// session; it may be empty. ok is false when this session cannot be. It is a
	// secret: whoever has it has the session.
	Handle() (handle []byte, ok bool)
	// Leave ends the connection as Close does, but leaves the session at the
	// server for who continues it. Close after it does nothing.
	Leave() error
}

// Listener is a [Conn] that hears what belongs to no exchange only after Listen.
// A front calls it as soon as its client listens; until then a server that
// speaks unasked has nobody to speak to, as it has without a gateway.
type Listener interface {
	// Listen returns when the server's messages arrive, or will not, after a
	// bounded time. It may be called more than once.
	Listen()
}

// Conn is one client's connection to a server, after the handshake. Its methods
// may be called concurrently.
type Conn interface {
	// ServerInfo is the server's InitializeResult, raw.
	ServerInfo() json.RawMessage
	// Do sends the exchange's request and returns the server's own response,
	// with the client's request id. An error means that there is no answer and
	// says why; it is never dressed up as a result.
	Do(ctx context.Context, x *Exchange) (*mcp.Message, error)
	// Notify passes a client's notification to the server. The front handles
	// notifications/initialized and notifications/cancelled itself.
	Notify(ctx context.Context, m *mcp.Message) error
	// Done is closed when the server's side is gone and the session with it.
	Done() <-chan struct{}
	// Close ends the connection, and the server's session with it.
	Close() error
}

// Handler plays an exchange out; a [Stage] wraps one.
type Handler func(ctx context.Context, x *Exchange) (*mcp.Message, error)

// Stage looks at an exchange, and may change, refuse or observe it, before and
// after the next handler. Stages are put in order in one place: [New].
type Stage func(next Handler) Handler
