package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sse is the front for HTTP+SSE (MCP 2024-11-05, basic/transports), which
// clients of later versions use too: one stream carries everything to the
// client, and its first event says where to POST. It reports whether the path
// is its own.
func (g *Gateway) sse(w http.ResponseWriter, r *http.Request) bool {
	method, serve := http.MethodGet, g.subscribe
	// With or without the prefix: a client may come through a proxy that takes
	// it off, through one that does not, or directly.
	switch prefix := g.prefixOf(r); r.URL.Path {
	case pathSSE, prefix + pathSSE:
	case pathMessages, prefix + pathMessages:
		method, serve = http.MethodPost, g.message
	default:
		return false
	}
	switch r.Method {
	case method:
		serve(w, r)
	case http.MethodOptions:
		w.Header().Set("Allow", method+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	default:
		refuseMethod(w, method+", OPTIONS")
	}
	return true
}

// subscribe serves the stream. The session lives as long as it.
func (g *Gateway) subscribe(w http.ResponseWriter, r *http.Request) {
	if _, events := accepts(r); !events {
		protocolFault(w, http.StatusNotAcceptable, "the Accept header must allow text/event-stream")
		return
	}
	if !noBody(w, r) {
		return
	}
	s := g.newSession("")
	s.principal = principalOf(r)
	g.name(s)
	st := g.newStream(w)
	st.pushRaw(mcp.AppendEvent(nil, mcp.Event{
		Name: mcp.EventEndpoint,
		Data: []byte(g.prefixOf(r) + pathMessages + "?session_id=" + s.id),
	}))
	if err := s.attach(st); err != nil {
		panic(err) // it is new
	}
	if !g.calls.enter() { // closing
		st.breakOff()
		g.fail(w, http.StatusServiceUnavailable, mcp.ID{}, errStopping)
		return
	}
	err := g.enroll(s)
	g.calls.leave()
	if err != nil {
		st.breakOff()
		g.fail(w, http.StatusServiceUnavailable, mcp.ID{}, err)
		return
	}
	st.run(r.Context().Done(), nil, nil)
	g.end(s, errClientGone)
}

// message takes a POST: 202, and the answers go to the stream.
func (g *Gateway) message(w http.ResponseWriter, r *http.Request) {
	b, l, ok := g.body(w, r)
	if !ok {
		return
	}
	defer l.drop()
	p := &post{w: w, r: r, loan: l}
	var err error
	if p.messages, p.batch, err = mcp.ParseBatch(b); err != nil {
		id := mcp.ID{}
		if !p.batch {
			id = mcp.ParseID(b)
		}
		g.fail(w, http.StatusBadRequest, id, err)
		return
	}
	id := r.URL.Query().Get("session_id")
	if id == "" {
		g.fail(w, http.StatusBadRequest, p.id(), &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "session_id is missing; open a stream at " + pathSSE + " and POST where its first event says"})
		return
	}
	s := g.find(id, principalOf(r))
	if s == nil {
		g.fail(w, http.StatusNotFound, p.id(), errSessionOver)
		return
	}
	if p.batch && s.protocol() != mcp.V20250326 {
		g.fail(w, http.StatusBadRequest, mcp.ID{}, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "batches exist in protocol version 2025-03-26 only; send one message per POST"})
		return
	}
	for _, m := range p.messages {
		if m.Kind() != mcp.Request {
			if err := g.take(r.Context(), s, m); err != nil {
				g.fail(w, s.untakenStatus(err), mcp.ID{}, err)
				return
			}
			continue
		}
		if !g.calls.enter() {
			g.fail(w, http.StatusServiceUnavailable, m.ID, errStopping)
			return
		}
		g.dispatch(p, s, m)
	}
	w.WriteHeader(http.StatusAccepted)
}

// dispatch plays a request out in the background. When it returns, the request
// is known to the session: a cancellation that follows finds it.
func (g *Gateway) dispatch(p *post, s *session, m *mcp.Message) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.r.Context()))
	conn, client, err := s.begin(m.ID, m.Method, &call{cancel: cancel})
	begun := err == nil
	if begun {
		err = sessionOnly(p.r, m)
	}
	x := &Exchange{Client: client, Request: m, Peer: s, conn: conn}
	if err == nil && m.Method == mcp.MethodInitialize {
		if x.Client, err = declare(m, s.principal); err == nil {
			x.open = g.opener(s, x)
		}
	}
	p.loan.keep()
	s.answering.enter()
	go func() {
		defer g.calls.leave()
		defer s.answering.leave()
		defer p.loan.drop()
		defer cancel(nil)
		var response *mcp.Message
		switch {
		case errors.Is(err, errUninitialized) && m.Method == mcp.MethodPing:
			// The one request that a client may make before (MCP, Lifecycle,
			// Initialization): it asks whether this end is there, and it is.
			response = mcp.NewResult(m.ID, json.RawMessage(`{}`))
		case err != nil:
			response = mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
		default:
			response = g.outcome(ctx, x)
		}
		put := s.conclude
		if !begun {
			put = func(m *mcp.Message) error { return s.send(&s.own, m, maxUnread) }
		}
		g.respond(s, response, put)
	}()
}

// opener opens the session's connection and from then on watches over it: the
// stream ends when the server does, so that the client starts anew.
func (g *Gateway) opener(s *session, x *Exchange) func(context.Context) (*mcp.Message, error) {
	return func(ctx context.Context) (*mcp.Message, error) {
		if err := g.open(ctx, s, x.Client); err != nil {
			return nil, err
		}
		if l, ok := s.conn.(Listener); ok { // the client listens already
			l.Listen()
		}
		go func() {
			select {
			case <-s.conn.Done():
				g.settle(s)
				g.end(s, errServerLost)
			case <-s.ended:
			}
		}()
		return mcp.NewResult(x.Request.ID, s.conn.ServerInfo()), nil
	}
}

// respond puts a response on the session's stream, by put. A client that does not take
// its responses is given up: it must not take silence for an answer.
func (g *Gateway) respond(s *session, m *mcp.Message, put func(*mcp.Message) error) {
	if !s.listens() {
		return // the session is over, and the client gone
	}
	err := g.soon(s.ended, func() error { return put(m) })
	if errors.Is(err, errAnswerRoom) {
		err = put(&mcp.Message{ID: m.ID, Error: errAnswerRoom})
	}
	if err != nil {
		g.log.Debug("session ended", "reason", err)
		g.end(s, errClientGone)
	}
}
