package httpconn

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// serverSession is the part of a session at an HTTP server that is the same in each
// transport: the pending requests, the negotiated version and the lifetime. A transport
// sets push and reads what the server sends.
type serverSession struct {
	*remote
	log            *slog.Logger
	peer           exchange.Peer
	pending        *correlate.RequestTable
	serverRequests *correlate.ServerRequests
	// push POSTs a message that has no response; what describes the message in errors.
	push func(ctx context.Context, m *mcp.Message, what string) error

	info json.RawMessage // set by the handshake, then constant

	mu      sync.Mutex
	version mcp.Version // "" before the handshake; the server may send messages before it

	// ctx ends with the connection. work holds the goroutines of the connection,
	// farewells those that send the last messages to the server.
	ctx       context.Context
	stop      context.CancelFunc
	work      wire.Group
	farewells wire.Group
	done      chan struct{}
	end       sync.Once // closes done
	shut      sync.Once // Close
}

// newServerSession returns a session before its handshake. The caller sets push.
func newServerSession(r *remote, session exchange.Peer, log *slog.Logger) *serverSession {
	r.callers = &exchange.LastCaller{}
	s := &serverSession{
		remote: r, log: log.With("server", r.String()), peer: wire.OrNoPeer(session),
		pending: correlate.NewRequestTable(false), done: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.serverRequests = correlate.NewServerRequests(s.sendAnswer)
	return s
}

// InitializeResult returns the server's InitializeResult, raw.
func (s *serverSession) InitializeResult() json.RawMessage { return s.info }

// Done is closed when the server no longer has the session, and by Close.
func (s *serverSession) Done() <-chan struct{} { return s.done }

// initialize performs the handshake (MCP, Lifecycle, Initialization); request sends an
// exchange and returns its response.
func (s *serverSession) initialize(ctx context.Context, client *exchange.Client, request func(context.Context, *exchange.Exchange) (*mcp.Message, error)) error {
	init, err := wire.InitializeRequest(client)
	if err != nil {
		return err
	}
	answer, err := request(ctx, &exchange.Exchange{Client: client, Request: init, Peer: s.peer})
	if err != nil {
		return err
	}
	version, err := wire.NegotiatedVersion("the server at "+s.remote.String(), answer)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	s.info = answer.Result
	return s.Notify(ctx, wire.InitializedNotification())
}

// dispatch handles one message of the server. f is the request on whose stream it arrived,
// nil for the session's stream. On an error the caller must end the session: see
// [correlate.ServerRequests.Start].
func (s *serverSession) dispatch(f *correlate.PendingRequest, m *mcp.Message) error {
	live, shared := f != nil && s.pending.Has(f), s.pending.Shared.Load()
	// If the requests are of several clients, a message on the stream of a request that
	// has ended must not be assigned to another request.
	late := f != nil && !live && shared
	switch m.Kind() {
	case mcp.Response:
		if live && s.pending.DeliverTo(f, m) || f == nil && s.pending.Deliver(m) {
			return nil
		}
		s.log.Warn("the server answered a request that does not wait here", "id", m.ID.String())
	case mcp.Notification:
		switch {
		case m.Method == mcp.NotificationCancelled:
			s.serverRequests.Cancel(m)
		case correlate.IsSessionWide(m.Method):
			s.peer.Notify(m)
		case live && !(shared && m.Method == mcp.NotificationProgress): // pending.Notify restores its token
			f.Peer.Notify(m)
		case late || !s.pending.Notify(m):
			s.peer.Notify(m)
		}
	case mcp.Request:
		return s.serverRequests.Start(m, func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
			switch {
			case live:
				return f.Peer.Ask(ctx, q)
			case late:
				return s.peer.Ask(ctx, q)
			}
			return s.pending.SendServerRequest(ctx, q, s.peer)
		})
	}
	return nil
}

// abandon sends the server the cancellation of f, and reports whether it was pending.
func (s *serverSession) abandon(f *correlate.PendingRequest) bool {
	if !s.pending.Orphan(f) {
		return false
	}
	s.farewells.Go(func() { s.sendCancelled(f) })
	return true
}

func (s *serverSession) sendCancelled(f *correlate.PendingRequest) {
	if f.Method == mcp.MethodInitialize {
		return // initialize must not be cancelled (MCP, Cancellation)
	}
	ctx, cancel := context.WithTimeout(s.ctx, wire.FarewellTimeout)
	defer cancel()
	if err := s.Notify(ctx, f.Cancelled()); err != nil {
		s.log.Warn("a cancellation did not reach the server", "method", f.Method, "error", err)
	}
}

// lose ends the session, which the server no longer has, and fails its pending requests
// with err. In a shared session they fail after lostTime: a server sends 404 for other
// reasons too, and may still respond to the other requests.
func (s *serverSession) lose(err error) {
	shared := s.pending.Shared.Load()
	s.end.Do(func() {
		s.log.Info("the session ended", "error", err)
		// done is closed first: a caller that receives the error then finds that the
		// session has ended.
		close(s.done)
		s.pending.Refuse(err)
		if shared {
			s.work.Go(func() {
				_ = wire.Sleep(s.ctx, lostTime)
				s.fail(err)
			})
		}
	})
	if !shared {
		s.fail(err)
	}
}

func (s *serverSession) fail(err error) {
	s.pending.Fail(err)
	s.stop()
	s.serverRequests.Stop()
}

// Share marks the session as one for the requests of several clients. It is called before
// the first request.
func (s *serverSession) Share() { s.pending.Shared.Store(true) }

// Notify sends a client's notification to the server. The end of the session cancels it.
func (s *serverSession) Notify(ctx context.Context, m *mcp.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := s.push(ctx, m, m.Method)
	if errors.Is(err, context.Canceled) && s.ctx.Err() != nil {
		return wire.ErrClosed(s.remote.String())
	}
	return err
}

// sendAnswer sends a client's response to a request of the server.
func (s *serverSession) sendAnswer(ctx context.Context, m *mcp.Message) {
	if err := s.push(ctx, m, "the response to its request"); err != nil && ctx.Err() == nil {
		s.log.Warn("a response did not reach the server", "id", m.ID.String(), "error", err)
	}
}
