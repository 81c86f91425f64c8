package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// asks are a session's questions that wait for the client's answer, by the id
// that we gave them. It is guarded by the session's mutex.
type asks struct {
	last int64
	open map[mcp.ID]chan clientAnswer
}

// clientAnswer is what a client says to a question, with the loan of the body that it
// came in: it may wait for long for a server that does not read.
type clientAnswer struct {
	result json.RawMessage
	err    *mcp.Error
	loan   *loan
}

// until gives back the loan when ctx ends, which is when the answer has gone on
// ([exchange.Peer]).
func (a clientAnswer) until(ctx context.Context) {
	if a.loan != nil {
		context.AfterFunc(ctx, a.loan.drop)
	}
}

// unwanted gives back the loan of an answer that came when nobody waited for it any
// more. The question it answers is taken back already, so that no other comes.
func unwanted(answered <-chan clientAnswer) {
	select {
	case a := <-answered:
		a.loan.drop()
	default:
	}
}

// Why a client cannot be asked. The server is told.
var (
	errNoStream   = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client has no open stream on which it could be asked"}
	errClientGone = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client went away before it answered"}
	errShared     = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the clients of a stateless workload cannot be asked"}
)

// ask puts the question m by put, under an id of our own, and waits for the
// answer, for ctx, for the end of the session, or until gone is closed.
func (s *session) ask(ctx context.Context, m *mcp.Message, put func(*mcp.Message) error, gone <-chan struct{}) (*mcp.Message, error) {
	id, answered, err := s.question()
	if err != nil {
		return nil, err
	}
	defer func() {
		s.forget(id)
		unwanted(answered)
	}()
	if err := put(&mcp.Message{ID: id, Method: m.Method, Params: m.Params}); err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		a.until(ctx)
		return &mcp.Message{ID: m.ID, Result: a.result, Error: a.err}, nil
	case <-ctx.Done():
		// The question has lost its sense; the client may take it off its screen
		// (MCP, Cancellation).
		_ = put(mcp.Cancelled(id, "the server no longer waits for the answer"))
		return nil, context.Cause(ctx)
	case <-s.ended:
		return nil, errClientGone
	case <-gone:
		return nil, errClientGone
	}
}

func (s *session) question() (mcp.ID, <-chan clientAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return mcp.ID{}, nil, errClientGone
	}
	if s.asks.open == nil {
		s.asks.open = map[mcp.ID]chan clientAnswer{}
	}
	s.asks.last++
	id := mcp.IntID(s.asks.last)
	answered := make(chan clientAnswer, 1)
	s.asks.open[id] = answered
	return id, answered, nil
}

func (s *session) forget(id mcp.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asks.open, id)
}

// answer gives the client's response to the question it answers; l is the loan of the
// body that it came in. One that answers nothing is late, or made up; it is dropped.
func (s *session) answer(m *mcp.Message, l *loan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = time.Now()
	answered := s.asks.open[m.ID]
	if answered == nil {
		s.log.Debug("a response answers no question")
		return
	}
	delete(s.asks.open, m.ID) // one answer each
	answered <- clientAnswer{m.Result, m.Error, l.keep()}
}

// Ask puts a question that belongs to no exchange on the session's stream. A
// client opens that stream right after its initialize, so there is a grace
// period for it; not so when requests are in flight, since then their streams
// are the better way.
func (s *session) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	if s.shared {
		return nil, errShared
	}
	release, err := s.Hold(sizeOf(m))
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.listening(ctx); err != nil {
		return nil, err
	}
	// The stream may be replaced by another before the answer comes; what has
	// been asked on it is still asked.
	return s.ask(ctx, m, s.sendOwn, nil)
}

// Hold is of [exchange.Peer].
func (s *session) Hold(bytes int) (release func(), err error) { return s.asked.hold(bytes) }

// listening waits until the client listens.
func (s *session) listening(ctx context.Context) error {
	grace := time.NewTimer(s.pace.askGrace)
	defer grace.Stop()
	for {
		s.mu.Lock()
		listens, attached, busy, over := s.own.st != nil, s.attached, len(s.calls) > 0, s.over
		s.mu.Unlock()
		switch {
		case over:
			return errClientGone
		case listens:
			return nil
		case busy:
			return errNoStream
		}
		select {
		case <-attached:
		case <-grace.C:
			return errNoStream
		case <-s.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
