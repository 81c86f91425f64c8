package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
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
	p := &post{w: w, r: r}
	if !g.parse(p) {
		return
	}
	defer p.loan.drop()
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
		g.fail(w, http.StatusBadRequest, mcp.ID{}, errNoBatches)
		return
	}
	if !p.loan.in(&s.inbound) {
		g.fail(w, http.StatusServiceUnavailable, p.id(), errShareRoom)
		return
	}
	requests, err := g.admit(p, s)
	switch {
	case errors.Is(err, errStopping):
		g.fail(w, http.StatusServiceUnavailable, p.id(), err)
		return
	case err != nil:
		// Under its id, wherever that stood, it would answer the one that is in flight.
		g.fail(w, http.StatusBadRequest, mcp.ID{}, err)
		return
	}
	for _, m := range p.messages {
		if m.Kind() == mcp.Request {
			g.dispatch(p, s, requests[0])
			requests = requests[1:]
			continue
		}
		if err := g.take(p, s, m); err != nil {
			g.dismiss(s, requests)
			g.fail(w, s.untakenStatus(err), mcp.ID{}, err)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// admitted is a request of a POST that is known to the session: a cancellation that
// follows finds it. One that the session refused has an error, which goes to the stream.
type admitted struct {
	request *mcp.Message
	ctx     context.Context
	cancel  context.CancelCauseFunc
	conn    exchange.Conn
	client  *exchange.Client
	err     error
}

// admit makes all requests of a POST known to the session, or none: one whose id is
// that of another in flight cannot be answered on the stream that both share.
func (g *Gateway) admit(p *post, s *session) (all []*admitted, err error) {
	for _, m := range p.messages {
		if m.Kind() != mcp.Request {
			continue
		}
		if !g.calls.enter() {
			g.dismiss(s, all)
			return nil, errStopping
		}
		a := &admitted{request: m}
		a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(p.r.Context()))
		a.conn, a.client, a.err = s.begin(m.ID, m.Method, &call{cancel: a.cancel})
		if errors.Is(a.err, errInFlight) {
			a.cancel(nil)
			g.calls.leave()
			g.dismiss(s, all)
			return nil, errInFlight
		}
		all = append(all, a)
	}
	return all, nil
}

// dismiss lets go requests that were admitted.
func (g *Gateway) dismiss(s *session, all []*admitted) {
	for _, a := range all {
		if a.err == nil {
			s.finish(a.request.ID)
		}
		a.cancel(nil)
		g.calls.leave()
	}
}

// dispatch plays a request out in the background.
func (g *Gateway) dispatch(p *post, s *session, a *admitted) {
	m, cancel, err := a.request, a.cancel, a.err
	begun := err == nil
	if begun {
		err = sessionOnly(p.r, m)
	}
	x := &exchange.Exchange{Client: a.client, Request: m, Peer: s, Conn: a.conn}
	if err == nil {
		x.Meta, err = mcp.ReadMeta(m.Params)
	}
	if err == nil && m.Method == mcp.MethodInitialize {
		if x.Client, err = declare(m, s.principal); err == nil {
			x.Open = g.opener(s, x)
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
			response = g.outcome(a.ctx, x)
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
func (g *Gateway) opener(s *session, x *exchange.Exchange) func(context.Context) (*mcp.Message, error) {
	return func(ctx context.Context) (*mcp.Message, error) {
		if err := g.open(ctx, s, x.Client); err != nil {
			return nil, err
		}
		s.conn.Listen() // the client listens already
		go func() {
			select {
			case <-s.conn.Done():
				g.settle(s)
				g.end(s, errServerLost)
			case <-s.ended:
			}
		}()
		return mcp.NewResult(x.Request.ID, s.conn.InitializeResult()), nil
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
