package exchange

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Backend is the connection to one server, whichever era the server speaks. An
// implementation embeds [BackendDefaults] for the methods that it does not need.
type Backend interface {
	// Open begins a session for a client of the session era: it performs the
	// protocol's handshake with the server on behalf of client and returns the
	// connection. Messages of the server that belong to no exchange are sent to
	// session.
	Open(ctx context.Context, client *Client, session Peer) (Conn, error)
	// Resume continues the session that handle, of [Conn.Handle], identifies, without a
	// handshake: client is as it was at the beginning. Otherwise it is as Open.
	// Whether the server still has the session shows at the first message. The
	// error is [ErrNotResumable] when the session cannot be continued.
	Resume(ctx context.Context, client *Client, handle []byte, session Peer) (Conn, error)
	// Do sends a request of a client of the stateless era, which has no session:
	// everything that the server needs comes with it. Otherwise it is as [Conn.Do].
	// The result is of the stateless era. A subscriptions/listen ends when ctx does, or
	// the server ends it; its messages are sent to the exchange's Peer.
	Do(ctx context.Context, x *Exchange) (*mcp.Message, error)
	// ServerInfo returns what the server last reported about itself. It does not
	// contact the server and does not block.
	ServerInfo() ServerInfo
	// SetEvictor registers evict, which ends the call that has waited longest for its
	// client's answers, if there is one. A backend calls it when such calls occupy what
	// others wait for. SetEvictor is called once, before anything else.
	SetEvictor(evict func())
	// Unresponsive reports the result of the liveness check. With an error, the requests
	// that wait for the server fail with it, and later ones fail with it at once, until
	// Unresponsive(nil). Only initialize, ping and server/discover are still sent: they
	// show when the server answers again. Sessions and processes stay. The error is an
	// *mcp.Error. A call with the state that holds already does nothing.
	Unresponsive(err error)
	// Close ends every connection. It is called once.
	Close() error
}

// ErrNotResumable is returned when a session cannot be continued; its client begins
// another.
var ErrNotResumable = errors.New("the session cannot be continued")

// BackendDefaults implements the optional methods of [Backend]: sessions cannot be
// resumed, the server has not reported anything, and the liveness check has no effect.
type BackendDefaults struct{}

// Resume implements [Backend].
func (BackendDefaults) Resume(context.Context, *Client, []byte, Peer) (Conn, error) {
	return nil, ErrNotResumable
}

// ServerInfo implements [Backend].
func (BackendDefaults) ServerInfo() ServerInfo {
	return ServerInfo{Session: EraUnknown, Stateless: EraUnknown}
}

// SetEvictor implements [Backend].
func (BackendDefaults) SetEvictor(func()) {}

// Unresponsive implements [Backend].
func (BackendDefaults) Unresponsive(error) {}

// Conn is one client's connection to a server, after the handshake. Its methods may be
// called concurrently. An implementation embeds [ConnDefaults] for the methods that it
// does not need.
type Conn interface {
	// InitializeResult is the server's InitializeResult, raw.
	InitializeResult() json.RawMessage
	// Do sends the exchange's request and returns the server's own response, with the
	// client's request id. An error means that there is no response and gives the
	// reason; it is never turned into a result.
	Do(ctx context.Context, x *Exchange) (*mcp.Message, error)
	// Notify sends a client's notification to the server. The front handles
	// notifications/initialized and notifications/cancelled itself.
	Notify(ctx context.Context, m *mcp.Message) error
	// Listen makes messages of the server arrive that belong to no exchange, on
	// transports where they need a stream of their own. It returns when they arrive,
	// or will not, after a bounded time. It may be called more than once.
	Listen()
	// Handle is what [Backend.Resume] needs, beside the client, to continue the
	// session; it may be empty. ok is false when this session cannot be continued. The
	// handle is a secret: it gives access to the session.
	Handle() (handle []byte, ok bool)
	// Leave ends the connection as Close does, but leaves the session at the server, so
	// that it can be continued. Close after it does nothing.
	Leave() error
	// Done is closed when the server's side is gone and the session with it.
	Done() <-chan struct{}
	// Close ends the connection, and the server's session with it.
	Close() error
}

// ConnDefaults implements the optional methods of [Conn]: messages arrive without
// Listen, and the session cannot be continued.
type ConnDefaults struct{}

// Listen implements [Conn].
func (ConnDefaults) Listen() {}

// Handle implements [Conn].
func (ConnDefaults) Handle() (handle []byte, ok bool) { return nil, false }

// Leave implements [Conn].
func (ConnDefaults) Leave() error { return nil }
