package sessions

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/taskgroup"
)

// Bounds of one session.
const (
	maxCalls   = 1_000 // requests in flight
	maxNotices = 100   // notifications that the server has not accepted yet
)

// session is one client's state in the session era, from its initialize to its end. It is
// also the [exchange.Peer] for messages that belong to no exchange: peer.go.
//
// The lock order is session.mu, then streams.mu.
type session struct {
	exchange.PeerDefaults
	core *httpd.Core
	// id is set once ([Store.name]), at the latest before the session is in the table.
	id        string
	principal string
	serial    serial // of id
	resumed   bool   // it began at an earlier gateway
	shared    bool   // all clients of its principal at a stateless gateway use it
	client    *exchange.Client
	inbound   httpd.Budget  // its share of [httpd.Core.Inbound]
	ended     chan struct{} // closed when the session is over
	// answering are the calls whose response has not been sent yet.
	answering taskgroup.Group
	notices   atomic.Int64 // of the client, that the server has not accepted yet
	questions questions
	streams   streams
	validity  validity // of a session that lives as long as its stream

	mu       sync.Mutex
	conn     exchange.Conn // nil until the server has responded to initialize
	version  mcp.Version
	opening  bool
	declared *httpd.Reservation // for the client's declarations
	over     bool
	cause    error // why it is over
	seen     time.Time
	calls    map[mcp.ID]*call // in flight, by the client's id
}

// call is one request in flight.
type call struct {
	cancel context.CancelCauseFunc
	// client ends when the client that sent the request is gone. Nil for a request whose
	// response is sent on the session's stream.
	client context.Context
}

// newSession makes a session that has not begun; end ends it.
func newSession(core *httpd.Core, id string) *session {
	s := &session{
		core: core, id: id, ended: make(chan struct{}), seen: time.Now(), calls: map[mcp.ID]*call{},
		inbound: httpd.Budget{Max: httpd.MaxSessionInbound},
	}
	s.streams.init(core, s.touch)
	if id != "" {
		s.streams.identify(id)
	}
	return s
}

// Errors that a client receives as they are.
var (
	errCancelled     = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client cancelled the request"}
	errDeleted       = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client ended the session"}
	errExpired       = &mcp.Error{Code: mcp.CodeServerGone, Message: "the session expired"}
	errServerLost    = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server ended; initialize a new session"}
	errSessionOver   = &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "Session not found; initialize a new one"}
	errUninitialized = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the session is not initialized; send initialize first"}
	errInitialized   = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the session is initialized already"}
	errFull          = &mcp.Error{Code: mcp.CodeServerGone, Message: "there are too many sessions, or the workload is stopping; try again later"}
	errInFlight      = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "a request with this id is in flight already"}
	errTooManyCalls  = &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("more than %d requests of this session are in flight", maxCalls)}
)

// begin enters the request c under key and returns its connection and client; for
// initialize both are nil. After a nil error the caller must call finish.
func (s *session) begin(key mcp.ID, method string, c *call) (exchange.Conn, *exchange.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil, nil, errSessionOver
	case s.calls[key] != nil:
		return nil, nil, errInFlight
	case s.conn == nil && method != mcp.MethodInitialize:
		return nil, nil, errUninitialized
	case len(s.calls) >= maxCalls:
		return nil, nil, errTooManyCalls
	}
	s.calls[key] = c
	s.seen = time.Now()
	return s.conn, s.client, nil
}

func (s *session) finish(key mcp.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, key)
	s.seen = time.Now()
}

// conclude puts the response to a call on the session's stream and frees its id, so that
// exactly one is sent: by it, or by end.
func (s *session) conclude(m *mcp.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return httpd.ErrStreamOver
	}
	err := s.streams.pushOwn(m)
	if err == nil {
		delete(s.calls, m.ID)
		s.seen = time.Now()
	}
	return err
}

// cancel cancels the request in flight that m, a notifications/cancelled, names. There is
// none when it has been answered meanwhile. In a shared session ids are ambiguous, so
// nothing is cancelled.
func (s *session) cancel(m *mcp.Message) {
	if s.shared {
		return
	}
	id, ok := mcp.CancelledID(m)
	if !ok {
		return
	}
	s.mu.Lock()
	c := s.calls[id]
	s.mu.Unlock()
	if c != nil {
		c.cancel(errCancelled)
	}
}

// touch records activity of the client.
func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = time.Now()
}

// connection returns the connection for a notification.
func (s *session) connection() (exchange.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil, errSessionOver
	case s.conn == nil:
		return nil, errUninitialized
	}
	s.seen = time.Now()
	return s.conn, nil
}

// protocol is the version that client and server agreed on.
func (s *session) protocol() mcp.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// alive reports whether the server's side of the session exists.
func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	if s.conn == nil {
		return true
	}
	select {
	case <-s.conn.Done():
		return false
	default:
		return true
	}
}

// lostBy reports whether err means that the server no longer knows the session. Its client
// then receives 404 and begins another. A server may use that code for anything, so the
// session must be gone as well.
func (s *session) lostBy(err *mcp.Error) bool {
	return err != nil && err.Code == mcp.CodeSessionNotFound && !s.shared && !s.alive()
}

// idleSince returns the time of the last activity, and whether there is none now: no open
// stream and no request whose client is connected.
func (s *session) idleSince() (since time.Time, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening || s.streams.inspect().Streams > 0 {
		return s.seen, false
	}
	for _, c := range s.calls {
		if c.client == nil || c.client.Err() == nil {
			return s.seen, false
		}
	}
	return s.seen, true
}

// end ends the session: requests in flight are cancelled, and answered where the stream is
// their only way, requests of the server fail, the stream ends. The connection is returned
// for the caller to close; it is nil when there is none or the session was over before.
func (s *session) end(cause error) exchange.Conn {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil
	}
	s.over, s.cause = true, cause
	close(s.ended)
	calls, conn := s.calls, s.conn
	s.calls = map[mcp.ID]*call{}
	stream := s.streams.end()
	s.declared.Release()
	s.mu.Unlock()
	for id, c := range calls {
		if c.client == nil && stream != nil { // its response is sent on the stream, which ends here
			_ = stream.Push(mcp.ErrorResponse(id, mcp.CodeServerGone, cause), httpd.MaxUnread)
		}
		c.cancel(cause)
	}
	if stream != nil {
		stream.Finish()
	}
	return conn
}
