package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// httpSession is what a session at an HTTP server is, in whichever transport: who
// waits for what, what has been agreed, and what ends with it. A transport gives
// it a way to POST, and reads what comes.
type httpSession struct {
	*remote
	log     *slog.Logger
	session exchange.Peer
	flights *inflight
	asks    *questions
	// push POSTs a message that has no answer of its own; what is what a person
	// would call it.
	push func(ctx context.Context, m *mcp.Message, what string) error

	info json.RawMessage // set by the handshake, then constant

	mu      sync.Mutex
	version mcp.Version // "" before the handshake; a server may speak before that

	// ctx lives as long as the connection; what runs for it is in work, and what the
	// server is still to be told before it ends in words.
	ctx   context.Context
	stop  context.CancelFunc
	work  workers
	words workers
	done  chan struct{}
	end   sync.Once // closes done
	shut  sync.Once // Close
}

// newHTTPSession makes a session that has not begun. push is set by the caller.
func newHTTPSession(r *remote, session exchange.Peer, log *slog.Logger) *httpSession {
	s := &httpSession{
		remote: r, log: log.With("server", r.String()), session: orNoPeer(session),
		flights: newInflight(false), done: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.asks = newQuestions(s.sendAnswer)
	return s
}

// ServerInfo is the server's InitializeResult, raw.
func (s *httpSession) InitializeResult() json.RawMessage { return s.info }

// Done is closed when the server no longer has the session.
func (s *httpSession) Done() <-chan struct{} { return s.done }

// initialize begins the session (MCP, Lifecycle, Initialization); request plays
// the exchange out.
func (s *httpSession) initialize(ctx context.Context, client *exchange.Client, request func(context.Context, *exchange.Exchange) (*mcp.Message, error)) error {
	init, err := initializeRequest(client)
	if err != nil {
		return err
	}
	answer, err := request(ctx, &exchange.Exchange{Client: client, Request: init, Peer: s.session})
	if err != nil {
		return err
	}
	version, err := negotiated("the server at "+s.remote.String(), answer)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	s.info = answer.Result
	return s.Notify(ctx, initializedNotification())
}

// abandon has the server told that nobody waits for f any more, and reports whether
// it was still to be answered. Among requests of several clients, what the server says
// about it from now on must not look as if it were about the one other in flight.
func (s *httpSession) abandon(f *flight) bool {
	var until time.Time
	if s.flights.shared.Load() {
		until = time.Now().Add(abandonTime)
	}
	if !s.flights.forsake(f, until) {
		return false
	}
	s.words.start(func() { s.tellCancelled(f) })
	return true
}

func (s *httpSession) tellCancelled(f *flight) {
	if f.method == mcp.MethodInitialize {
		return // must not be cancelled (MCP, Cancellation)
	}
	ctx, cancel := context.WithTimeout(s.ctx, partingTime)
	defer cancel()
	if err := s.Notify(ctx, f.cancelled()); err != nil {
		s.log.Warn("the server was not told of a cancelled request", "method", f.method, "error", err)
	}
}

// lose ends the session from the server's side, and what is in flight with it. In
// a shared session that is not at once: a server says 404 for other reasons too,
// and may go on answering those who were not told so.
func (s *httpSession) lose(err error) {
	shared := s.flights.shared.Load()
	s.end.Do(func() {
		s.log.Info("the session ended", "error", err)
		// First: who is told that the session is lost finds that it is.
		close(s.done)
		s.flights.refuse(err)
		if shared {
			s.work.start(func() {
				_ = sleep(s.ctx, lostTime)
				s.fail(err)
			})
		}
	})
	if !shared {
		s.fail(err)
	}
}

func (s *httpSession) fail(err error) {
	s.flights.fail(err)
	s.stop()
	s.asks.stop()
}

// Share says that the requests in the session are of several clients. It is called
// before the first of them.
func (s *httpSession) Share() { s.flights.shared.Store(true) }

// Notify passes a client's notification to the server, if that takes it before the
// session ends.
func (s *httpSession) Notify(ctx context.Context, m *mcp.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.flights.tell()
	err := s.push(ctx, m, m.Method)
	if errors.Is(err, context.Canceled) && s.ctx.Err() != nil {
		return errClosed(s.remote.String())
	}
	return err
}

// sendAnswer sends a client's answer to a question of the server.
func (s *httpSession) sendAnswer(ctx context.Context, m *mcp.Message) {
	if err := s.push(ctx, m, "the answer to its question"); err != nil && ctx.Err() == nil {
		s.log.Warn("an answer did not reach the server", "id", m.ID.String(), "error", err)
	}
}
