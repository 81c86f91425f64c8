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

// serverSession is what a session at an HTTP server is, in whichever transport: who
// waits for what, what has been agreed, and what ends with it. A transport gives
// it a way to POST, and reads what comes.
type serverSession struct {
	*remote
	log            *slog.Logger
	peer           exchange.Peer
	pending        *correlate.RequestTable
	serverRequests *correlate.ServerRequests
	// push POSTs a message that has no answer of its own; what is what a person
	// would call it.
	push func(ctx context.Context, m *mcp.Message, what string) error

	info json.RawMessage // set by the handshake, then constant

	mu      sync.Mutex
	version mcp.Version // "" before the handshake; a server may speak before that

	// ctx lives as long as the connection; what runs for it is in work, and what the
	// server is still to be told before it ends in words.
	ctx       context.Context
	stop      context.CancelFunc
	work      wire.Group
	farewells wire.Group
	done      chan struct{}
	end       sync.Once // closes done
	shut      sync.Once // Close
}

// newServerSession makes a session that has not begun. push is set by the caller.
func newServerSession(r *remote, session exchange.Peer, log *slog.Logger) *serverSession {
	s := &serverSession{
		remote: r, log: log.With("server", r.String()), peer: wire.OrNoPeer(session),
		pending: correlate.NewRequestTable(false), done: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.serverRequests = correlate.NewServerRequests(s.sendAnswer)
	return s
}

// ServerInfo is the server's InitializeResult, raw.
func (s *serverSession) InitializeResult() json.RawMessage { return s.info }

// Done is closed when the server no longer has the session.
func (s *serverSession) Done() <-chan struct{} { return s.done }

// initialize begins the session (MCP, Lifecycle, Initialization); request plays
// the exchange out.
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

// abandon sends the server the cancellation of f, and reports whether it was pending.
func (s *serverSession) abandon(f *correlate.PendingRequest) bool {
	if !s.pending.Orphan(f) {
		return false
	}
	s.farewells.Go(func() { s.tellCancelled(f) })
	return true
}

func (s *serverSession) tellCancelled(f *correlate.PendingRequest) {
	if f.Method == mcp.MethodInitialize {
		return // must not be cancelled (MCP, Cancellation)
	}
	ctx, cancel := context.WithTimeout(s.ctx, wire.FarewellTimeout)
	defer cancel()
	if err := s.Notify(ctx, f.Cancelled()); err != nil {
		s.log.Warn("the server was not told of a cancelled request", "method", f.Method, "error", err)
	}
}

// lose ends the session from the server's side, and what is in flight with it. In
// a shared session that is not at once: a server says 404 for other reasons too,
// and may go on answering those who were not told so.
func (s *serverSession) lose(err error) {
	shared := s.pending.Shared.Load()
	s.end.Do(func() {
		s.log.Info("the session ended", "error", err)
		// First: who is told that the session is lost finds that it is.
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

// Share says that the requests in the session are of several clients. It is called
// before the first of them.
func (s *serverSession) Share() { s.pending.Shared.Store(true) }

// Notify passes a client's notification to the server, if that takes it before the
// session ends.
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

// sendAnswer sends a client's answer to a question of the server.
func (s *serverSession) sendAnswer(ctx context.Context, m *mcp.Message) {
	if err := s.push(ctx, m, "the answer to its question"); err != nil && ctx.Err() == nil {
		s.log.Warn("an answer did not reach the server", "id", m.ID.String(), "error", err)
	}
}
