package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// reply is the answer to one POST with requests. It is undecided at first: when
// the responses come before anything else, they are plain JSON; when something
// has to be sent before them, or nothing happens for so long that a proxy on
// the way might lose patience, it becomes an event stream whose last events
// they are (MCP 2025-11-25, basic/transports, Sending Messages).
type reply struct {
	exchange.PeerDefaults
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	session *session
	plain   bool // the client accepts plain JSON
	streams bool // the client accepts an event stream
	// announce gives the id of a session that begins with this reply; nil for
	// none.
	announce func() string
	timer    *time.Timer

	mu      sync.Mutex
	stream  *stream  // nil while undecided
	channel *channel // what stream carries, if a client can come back to it
	over    bool     // the responses are there: the handler alone decides
}

// start begins to watch the time. The fields above mu are set before.
func (p *reply) start() {
	if p.streams {
		p.timer = time.AfterFunc(p.g.pace.quiet, func() { p.open() })
	}
}

// open decides for an event stream; nil when that is not possible (any more).
func (p *reply) open() *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !p.streams {
		return nil
	}
	if p.stream == nil {
		if p.announce != nil {
			p.w.Header().Set(mcp.HeaderSessionID, p.announce())
		}
		p.stream = p.g.newStream(p.w)
		// The client does not know the session yet that it would come back to when
		// that begins with this reply.
		if p.session != nil && p.session.resumable && p.announce == nil {
			p.channel = p.session.openChannel(p.stream)
		}
		go p.carry(p.stream, p.channel)
	}
	return p.stream
}

func (p *reply) carry(st *stream, c *channel) {
	whole := st.run(p.r.Context().Done(), nil, nil)
	if c != nil {
		p.session.leaveChannel(c, st, whole)
	}
}

// put sends m on the stream st of this reply, however it is carried now.
func (p *reply) put(st *stream, m *mcp.Message, limit int) error {
	if p.channel != nil {
		return p.session.send(p.channel, m, limit)
	}
	return st.push(m, limit)
}

// finish sends the responses and returns when they have been written. status is
// that of a plain answer. sent is false when the client is known to have another
// answer for one of them, that there was no room, or none.
func (p *reply) finish(status int, responses []*mcp.Message, batch bool) (sent bool) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.plain && status == http.StatusOK { // a stream would hide any other
		p.open()
	}
	p.mu.Lock()
	p.over = true
	st := p.stream
	p.mu.Unlock()
	if st == nil {
		l, sent := p.borrow(responses)
		defer l.drop()
		if p.announce != nil && responses[0].Error == nil {
			p.w.Header().Set(mcp.HeaderSessionID, p.announce())
		}
		p.g.writeMessages(p.w, status, responses, batch)
		return sent
	}
	sent = true
	for _, m := range responses {
		// MCP 2025-03-26 allows a batch's responses one by one.
		err := p.g.soon(p.r.Context().Done(), func() error { return p.put(st, m, maxUnread) })
		sent = sent && err == nil
		if errors.Is(err, errAnswerRoom) {
			err = p.put(st, &mcp.Message{ID: m.ID, Error: errAnswerRoom}, maxUnread)
		}
		if err != nil {
			p.g.log.Debug("response dropped", "reason", err)
		}
	}
	if p.channel != nil {
		p.session.closeChannel(p.channel)
	} else {
		st.finish()
	}
	<-st.done
	return sent
}

// borrow takes room for plain responses while they are written. Without it they
// become errors.
func (p *reply) borrow(responses []*mcp.Message) (l *loan, ok bool) {
	size := 0
	for _, m := range responses {
		size += sizeOf(m)
	}
	err := p.g.soon(p.r.Context().Done(), func() (err error) {
		if l, ok = p.g.outbound.lend(size, smallSize); !ok {
			err = errAnswerRoom
		}
		return err
	})
	if err != nil {
		for i, m := range responses {
			responses[i] = &mcp.Message{ID: m.ID, Error: errAnswerRoom}
		}
	}
	return l, ok
}

// Notify sends a notification before the responses. To a client that takes no
// event stream here it goes by the session's stream, if that is open.
func (p *reply) Notify(m *mcp.Message) {
	err := error(errStreamOver)
	if st := p.open(); st != nil {
		err = p.put(st, m, maxPending)
	} else if p.session.listens() {
		err = p.session.sendOwn(m)
	}
	if err != nil {
		p.g.log.Debug("notification dropped", "method", short(m.Method), "reason", err)
	}
}

// Ask puts a question on this stream, or on the session's when there can be
// none here. When the client goes away, and does not come back in time, the
// question fails: the client could not be told the outcome either.
func (p *reply) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	if p.session == nil || p.session.shared {
		return nil, errShared
	}
	release, err := p.Hold(sizeOf(m))
	if err != nil {
		return nil, err
	}
	defer release()
	st := p.open()
	if st == nil {
		if !p.session.listens() {
			return nil, errNoStream
		}
		return p.session.ask(ctx, m, p.session.sendOwn, nil)
	}
	gone := p.r.Context().Done()
	if p.channel != nil {
		gone = p.session.gone(p.channel)
	}
	select {
	case <-gone:
		return nil, errClientGone
	default:
	}
	return p.session.ask(ctx, m, func(q *mcp.Message) error { return p.put(st, q, maxPending) }, gone)
}

// Hold is of [exchange.Peer].
func (p *reply) Hold(bytes int) (release func(), err error) { return p.g.asked.hold(bytes) }

// listens reports whether the session's own stream is open.
func (s *session) listens() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.st != nil
}
