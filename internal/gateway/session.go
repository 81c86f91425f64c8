package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// session is one client's state in the session era, from its initialize to its
// end. It is also the [exchange.Peer] for what belongs to no exchange.
type session struct {
	exchange.PeerDefaults
	// id is given once ([Gateway.name]), at the latest before the session is in
	// the table.
	id        string
	principal string // whose session it is
	serial    serial // of id
	revived   bool   // it began before the gateway did
	shared    bool   // it is the one of all clients of a stateless gateway
	client    *exchange.Client
	log       *slog.Logger
	pace      *pace
	asked     *memory       // of the gateway, for asks
	inbound   memory        // its share of the gateway's
	ended     chan struct{} // closed when the session is over
	// answering counts the calls that are not answered yet.
	answering tally
	notices   atomic.Int64 // of the client, on their way to the server

	mu      sync.Mutex
	conn    exchange.Conn // nil until the server has answered initialize
	version mcp.Version
	opening bool
	// declared is the loan of what the client says of itself.
	declared *loan
	over     bool
	cause    error // why it is over
	seen     time.Time
	calls    map[mcp.ID]*call // in flight, by the client's id
	asks     asks
	// own carries what belongs to no exchange; while nothing carries it, attached
	// is open and notifications wait in the backlog.
	own      channel
	attached chan struct{}
	backlog  backlog
	// What makes streams resumable; nothing until there is one.
	resumable bool
	streams   uint64              // the last one's number
	posts     map[uint64]*channel // of POSTs that are not answered yet
	past      past
	tag       string // marks the ids of events
}

// call is one request in flight.
type call struct {
	cancel context.CancelCauseFunc
	// client ends when the client that made the request is gone. Nil for a
	// request whose answer goes to a session's stream.
	client context.Context
}

// newSession makes a session that has not begun; end ends it.
func (g *Gateway) newSession(id string) *session {
	return &session{
		id: id, log: g.log, pace: &g.pace, ended: make(chan struct{}),
		seen: time.Now(), calls: map[mcp.ID]*call{}, attached: make(chan struct{}),
		asked: &g.asked, backlog: backlog{memory: &g.backlogs}, inbound: memory{max: maxSessionInbound},
	}
}

// Reasons to refuse or end a request that a client is told as they are.
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

// begin enters the request c under key and returns the connection it goes to
// and whom it is for; initialize alone has neither yet. Without an error the
// caller must finish it.
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

// cancel cancels the request in flight that m, a notifications/cancelled,
// names. There may be none: it has been answered meanwhile. Without a session
// nobody can tell whose request is meant, so nothing is cancelled.
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

// alive reports whether the server's side of the session is still there.
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

// lostBy reports whether err tells that the server no longer knows the session:
// its client is told with 404, the sign to begin another. A server may give that
// code to anything, so the session must be gone as well.
func (s *session) lostBy(err *mcp.Error) bool {
	return err != nil && err.Code == mcp.CodeSessionNotFound && !s.shared && !s.alive()
}

// idleSince tells since when nothing has happened, and whether nothing is
// happening now: no open stream and no request whose client is still there.
func (s *session) idleSince() (since time.Time, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.st != nil || s.opening {
		return s.seen, false
	}
	for _, c := range s.posts {
		if c.st != nil {
			return s.seen, false
		}
	}
	for _, c := range s.calls {
		if c.client == nil || c.client.Err() == nil {
			return s.seen, false
		}
	}
	return s.seen, true
}

// end ends the session: requests in flight are cancelled, and answered where the
// stream is their only way, questions fail, the stream ends. The connection is returned
// for the caller to close; it is nil when there is none or the session was over before.
func (s *session) end(cause error) exchange.Conn {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil
	}
	s.over, s.cause = true, cause
	close(s.ended)
	calls, stream, conn := s.calls, s.own.st, s.conn
	s.calls, s.own.st = map[mcp.ID]*call{}, nil
	s.backlog.clear()
	s.past.clear()
	s.declared.drop()
	for _, c := range s.posts {
		if c.away != nil {
			c.away.Stop()
		}
	}
	s.mu.Unlock()
	for id, c := range calls {
		if c.client == nil && stream != nil { // its answer is for the stream, which ends here
			_ = stream.push(mcp.ErrorResponse(id, mcp.CodeServerGone, cause), maxUnread)
		}
		c.cancel(cause)
	}
	if stream != nil {
		stream.finish()
	}
	return conn
}

// conclude puts the response to a call on the session's stream and frees its id, so
// that exactly one is sent: by it, or by end.
func (s *session) conclude(m *mcp.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.st == nil {
		return errStreamOver
	}
	err := s.own.st.push(m, maxUnread)
	if err == nil {
		delete(s.calls, m.ID)
		s.seen = time.Now()
	}
	return err
}

// attach makes st the stream for what belongs to no exchange and puts what
// waited on it. A stream that was there before ends: a client that lost its
// connection must not have to wait until we notice. It is an error when the
// session is over.
func (s *session) attach(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errSessionOver
	}
	s.attachOwn(st, nil, true)
	return nil
}

// attachOwn is attach, after the events that the client missed. prime: it has no
// id to come back with yet.
func (s *session) attachOwn(st *stream, missed []pastEvent, prime bool) {
	before := s.own.st
	s.own.st = st
	if s.resumable && s.own.number == 0 {
		s.own.number = s.nextStream()
	}
	if prime {
		s.prime(&s.own)
	}
	for _, e := range missed {
		st.pushRaw(e.event)
	}
	if s.own.number == 0 {
		st.pushRaw(s.backlog.take())
	} else {
		for _, event := range s.backlog.events {
			st.pushRaw(s.remember(&s.own, event))
		}
		s.backlog.clear()
	}
	if before == nil {
		close(s.attached)
	} else {
		before.finish()
	}
}

// Notify sends a notification on the session's stream, or keeps it until there
// is one.
func (s *session) Notify(m *mcp.Message) {
	if err := s.sendOwn(m); err != nil {
		s.log.Debug("notification dropped", "method", short(m.Method), "reason", err)
	}
}

// trim drops what nobody will come back for.
func (s *session) trim(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.trim(before)
}
