package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// reply is the answer to one POST with requests. It is undecided at first: when
// the responses come before anything else, they are plain JSON; when something
// has to be sent before them, or nothing happens for so long that a proxy on
// the way might lose patience, it becomes an event stream whose last events
// they are (MCP 2025-11-25, basic/transports, Sending Messages).
type reply struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	session *session
	plain   bool // the client accepts plain JSON
	streams bool // the client accepts an event stream
	// announce is the id of a session that begins with this reply; "" for none.
	announce string
	timer    *time.Timer

	mu     sync.Mutex
	stream *stream // nil while undecided
	over   bool    // the responses are there: the handler alone decides
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
		if p.announce != "" {
			p.w.Header().Set(mcp.HeaderSessionID, p.announce)
		}
		p.stream = newStream(p.w, &p.g.pace)
		go p.stream.run(p.r.Context().Done(), nil)
	}
	return p.stream
}

// finish sends the responses and returns when they have been written. status is
// that of a plain answer.
func (p *reply) finish(status int, responses []*mcp.Message, batch bool) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.plain {
		p.open()
	}
	p.mu.Lock()
	p.over = true
	st := p.stream
	p.mu.Unlock()
	if st == nil {
		if p.announce != "" && responses[0].Error == nil {
			p.w.Header().Set(mcp.HeaderSessionID, p.announce)
		}
		if status == http.StatusServiceUnavailable {
			p.w.Header().Set("Retry-After", "5")
		}
		// A client that does not read must not hold us up forever.
		_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(p.g.pace.write))
		p.g.writeMessages(p.w, status, responses, batch)
		return
	}
	for _, m := range responses {
		// MCP 2025-03-26 allows a batch's responses one by one.
		if err := st.push(m, maxUnread); err != nil {
			p.g.log.Debug("response dropped", "reason", err)
		}
	}
	st.finish()
	<-st.done
}

// Notify sends a notification before the responses. To a client that takes no
// event stream here it goes by the session's stream, if that is open.
func (p *reply) Notify(m *mcp.Message) {
	err := error(errStreamOver)
	if st := p.open(); st != nil {
		err = st.push(m, maxPending)
	} else if st := p.session.current(); st != nil {
		err = st.push(m, maxPending)
	}
	if err != nil {
		p.g.log.Debug("notification dropped", "method", short(m.Method), "reason", err)
	}
}

// Ask puts a question on this stream, or on the session's when there can be
// none here. When the client goes away the question fails: the client could not
// be told the outcome either.
func (p *reply) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	if p.session == nil || p.session.id == "" {
		return nil, errShared
	}
	st, gone := p.open(), p.r.Context().Done()
	if st == nil {
		if st, gone = p.session.current(), nil; st == nil {
			return nil, errNoStream
		}
	}
	return p.session.ask(ctx, m, func(q *mcp.Message) error { return st.push(q, maxPending) }, gone)
}

// current is the session's stream, or nil.
func (s *session) current() *stream {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}
