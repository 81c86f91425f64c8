package sessions

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Streamable is the front for streamable HTTP.
type Streamable struct {
	core  *httpd.Core
	store *Store
}

// NewStreamable makes the front.
func NewStreamable(core *httpd.Core, store *Store) *Streamable { return &Streamable{core, store} }

// Post serves a POST of the session era.
func (f *Streamable) Post(p *httpd.Post) {
	for _, m := range p.Messages {
		if m.Method == mcp.MethodInitialize && m.Kind() == mcp.Request {
			f.initialize(p, m)
			return
		}
	}
	s, status, err := f.sessionOf(p.R)
	if err != nil {
		f.core.Fail(p.W, status, p.ID(), err)
		return
	}
	switch {
	case p.Batch && s.protocol() != mcp.V20250326:
		f.core.Fail(p.W, http.StatusBadRequest, mcp.ID{}, httpd.ErrNoBatches)
	case !s.shared && !p.Body.CountIn(&s.inbound):
		f.core.Fail(p.W, http.StatusServiceUnavailable, p.ID(), httpd.ErrShareRoom)
	case p.Batch:
		f.serveBatch(p, s)
	case p.Messages[0].Kind() == mcp.Request:
		f.serve(p, s, p.Messages[0])
	default:
		f.accept(p, s)
	}
}

var errNoSession = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the Mcp-Session-Id header is missing; send initialize first"}

// sessionOf returns the session of a request, or an error with its HTTP status (MCP
// 2025-11-25, basic/transports, Session Management). After 404 with -32001 clients
// initialize again.
func (f *Streamable) sessionOf(r *http.Request) (s *session, status int, err error) {
	if f.core.Endpoint.Stateless {
		v := mcp.Version(r.Header.Get(mcp.HeaderVersion))
		if v == "" {
			v = mcp.V20250326 // "SHOULD assume protocol version 2025-03-26"
		}
		s, err = f.store.sharedSession(r.Context(), httpd.Principal(r), v)
		return s, f.store.openStatus(err), err
	}
	if len(r.Header[mcp.HeaderSessionID]) > 1 {
		// A proxy may route by the other one.
		return nil, http.StatusBadRequest, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the Mcp-Session-Id header occurs twice"}
	}
	id := r.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		return nil, http.StatusBadRequest, errNoSession
	}
	principal := httpd.Principal(r)
	if s = f.store.find(id, principal); s == nil {
		if s, err = f.store.resume(r.Context(), id, principal); err != nil {
			return nil, f.store.resumeStatus(err), err
		}
	}
	return s, http.StatusOK, nil
}

// accept handles a POST without requests: 202, or an error for a notification that did not
// reach the server.
func (f *Streamable) accept(p *httpd.Post, s *session) {
	for _, m := range p.Messages {
		if err := s.receive(p, m); err != nil {
			f.core.Fail(p.W, s.noticeStatus(err), mcp.ID{}, err)
			return
		}
	}
	p.W.WriteHeader(http.StatusAccepted)
}

// serve responds to one request.
func (f *Streamable) serve(p *httpd.Post, s *session, m *mcp.Message) {
	if !f.core.Calls.Enter() {
		f.core.Fail(p.W, http.StatusServiceUnavailable, m.ID, httpd.ErrStopping)
		return
	}
	defer f.core.Calls.Leave()
	s.answering.Enter()
	defer s.answering.Leave()
	peer := f.newPeer(p, s)
	response, refused := f.call(p, m, peer)
	status := http.StatusOK
	switch {
	case refused != nil:
		status = refusedStatus(refused)
	case s.lostBy(response.Error):
		status = http.StatusNotFound
	}
	peer.reply.Finish(httpd.Status(response, status), []*mcp.Message{response}, false)
}

// newPeer starts the reply to p.
func (f *Streamable) newPeer(p *httpd.Post, s *session) *callPeer {
	peer := &callPeer{session: s}
	peer.reply.Init(f.core, p)
	if s.streams.resumable {
		peer.reply.Channels = &s.streams
	}
	peer.reply.Start()
	return peer
}

// call sends one request to the server and returns the response. refused is why the session
// did not accept it. The request's id is free again when call returns, so the client may use
// it as soon as it has the response.
func (f *Streamable) call(p *httpd.Post, m *mcp.Message, peer *callPeer) (response *mcp.Message, refused error) {
	s := peer.session
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.R.Context()))
	defer cancel(nil)
	key := m.ID
	if s.shared {
		key = f.store.shared.key()
	}
	conn, client, err := s.begin(key, m.Method, &call{cancel: cancel, client: p.R.Context()})
	if err != nil {
		return mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err), err
	}
	defer s.finish(key)
	meta, err := mcp.ReadMeta(m.Params)
	if err != nil {
		return mcp.ErrorResponse(m.ID, mcp.CodeInvalidParams, err), nil
	}
	return f.core.Outcome(ctx, &exchange.Exchange{
		Client: client, Caller: exchange.CallerOf(ctx), Source: f.core.SourceOf(p.R), Request: m, Meta: meta, Peer: peer, Conn: conn,
	}), nil
}
