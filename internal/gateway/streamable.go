package gateway

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// streamable is the front for streamable HTTP (MCP 2025-11-25,
// basic/transports). It reports whether the path is its own.
func (g *Gateway) streamable(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != pathMCP {
		return false
	}
	allow := "GET, POST, DELETE, OPTIONS"
	if g.cfg.Endpoint.Stateless {
		allow = "POST, OPTIONS"
	}
	switch {
	case r.Method == http.MethodPost:
		g.post(w, r)
	case r.Method != http.MethodOptions && mcp.Version(r.Header.Get(mcp.HeaderVersion)).IsStateless():
		refuseMethod(w, "POST, OPTIONS") // MCP 2026-07-28, basic/transports/streamable-http
	case r.Method == http.MethodGet && !g.cfg.Endpoint.Stateless:
		g.listen(w, r)
	case r.Method == http.MethodDelete && !g.cfg.Endpoint.Stateless:
		g.remove(w, r)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuseMethod(w, allow)
	}
	return true
}

// post is one POST with what was found out about it.
type post struct {
	w             http.ResponseWriter
	r             *http.Request
	plain, events bool // what the client accepts
	messages      []*mcp.Message
	batch         bool
	loan          *loan // of the body
}

func (g *Gateway) post(w http.ResponseWriter, r *http.Request) {
	p := &post{w: w, r: r}
	if p.plain, p.events = accepts(r); !p.plain && !p.events {
		protocolFault(w, http.StatusNotAcceptable, "the Accept header must allow application/json and text/event-stream")
		return
	}
	if !g.parse(p) {
		return
	}
	defer p.loan.drop()
	for _, m := range p.messages {
		k, err := marksOf(r, m)
		if err == nil && k.stateless() {
			g.modern(p, k)
			return
		}
		if err == nil {
			err = k.check()
		}
		if err != nil {
			g.fail(w, http.StatusBadRequest, p.id(), err)
			return
		}
		if m.Method == mcp.MethodInitialize && m.Kind() == mcp.Request {
			g.initialize(p, m)
			return
		}
	}
	s, status, err := g.sessionOf(r)
	if err != nil {
		g.fail(w, status, p.id(), err)
		return
	}
	switch {
	case p.batch && s.protocol() != mcp.V20250326:
		g.fail(w, http.StatusBadRequest, mcp.ID{}, errNoBatches)
	case !s.shared && !p.loan.in(&s.inbound):
		g.fail(w, http.StatusServiceUnavailable, p.id(), errShareRoom)
	case p.batch:
		g.serveBatch(p, s)
	case p.messages[0].Kind() == mcp.Request:
		g.serve(p, s, p.messages[0])
	default:
		g.accept(p, s)
	}
}

// parse reads the messages of a POST. A fault has been answered when it is false; else
// the caller drops the loan.
func (g *Gateway) parse(p *post) bool {
	b, l, ok := g.body(p.w, p.r)
	if !ok {
		return false
	}
	var err error
	if p.messages, p.batch, err = mcp.ParseBatch(b); err == nil {
		p.loan = l
		return true
	}
	defer l.drop()
	id := mcp.ID{}
	if !p.batch {
		id = mcp.ParseID(b)
	}
	g.fail(p.w, http.StatusBadRequest, id, err)
	return false
}

// id is what an error about the whole POST carries.
func (p *post) id() mcp.ID {
	if m := p.messages[0]; !p.batch && m.Kind() == mcp.Request {
		return m.ID
	}
	return mcp.ID{}
}

func (p *post) reply(g *Gateway, s *session) *reply {
	return &reply{g: g, w: p.w, r: p.r, session: s, plain: p.plain, streams: p.events}
}

var errNoSession = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the Mcp-Session-Id header is missing; send initialize first"}

// sessionOf finds the session that a request belongs to, or says with which
// HTTP status there is none (MCP 2025-11-25, basic/transports, Session
// Management). Clients take 404 with -32001 as the sign to initialize again.
func (g *Gateway) sessionOf(r *http.Request) (s *session, status int, err error) {
	if g.cfg.Endpoint.Stateless {
		v := mcp.Version(r.Header.Get(mcp.HeaderVersion))
		if v == "" {
			v = mcp.V20250326 // "SHOULD assume protocol version 2025-03-26"
		}
		s, err = g.anonymous(r.Context(), v)
		return s, g.openStatus(err), err
	}
	if len(r.Header[mcp.HeaderSessionID]) > 1 {
		// Who stands in front of us may go by the other one.
		return nil, http.StatusBadRequest, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the Mcp-Session-Id header is there twice"}
	}
	id := r.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		return nil, http.StatusBadRequest, errNoSession
	}
	principal := principalOf(r)
	if s = g.find(id, principal); s == nil {
		if s, err = g.revive(r.Context(), id, principal); err != nil {
			return nil, g.reviveStatus(err), err
		}
	}
	return s, http.StatusOK, nil
}

// fail answers a POST with an error and that HTTP status.
func (g *Gateway) fail(w http.ResponseWriter, status int, id mcp.ID, err error) {
	g.writeMessages(w, status, []*mcp.Message{mcp.ErrorResponse(id, mcp.CodeServerGone, err)}, false)
}

// serve answers one request.
func (g *Gateway) serve(p *post, s *session, m *mcp.Message) {
	if !g.calls.enter() {
		g.fail(p.w, http.StatusServiceUnavailable, m.ID, errStopping)
		return
	}
	defer g.calls.leave()
	s.answering.enter()
	defer s.answering.leave()
	reply := p.reply(g, s)
	reply.start()
	response, refused := g.play(p.r, s, m, reply)
	status := http.StatusOK
	switch {
	case refused != nil:
		status = refusedStatus(refused)
	case s.lostBy(response.Error):
		status = http.StatusNotFound
	}
	reply.finish(status, []*mcp.Message{response}, false)
}

// play plays one request out within the session. refused is why the session
// did not take it. When play returns, the request's id is free again, so a
// client may use it as soon as it has the response.
func (g *Gateway) play(r *http.Request, s *session, m *mcp.Message, peer exchange.Peer) (response *mcp.Message, refused error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	key := m.ID
	if s.shared {
		key = g.shared.key()
	}
	conn, client, err := s.begin(key, m.Method, &call{cancel: cancel, client: r.Context()})
	if err != nil {
		return mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err), err
	}
	defer s.finish(key)
	meta, err := mcp.ReadMeta(m.Params)
	if err != nil {
		return mcp.ErrorResponse(m.ID, mcp.CodeInvalidParams, err), nil
	}
	return g.outcome(ctx, &exchange.Exchange{Client: client, Request: m, Meta: meta, Peer: peer, Conn: conn}), nil
}
