package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// SSE is the front for HTTP+SSE (MCP 2024-11-05, basic/transports), which clients of later
// versions use too: one stream carries everything to the client, and its first event has
// the path to POST to.
type SSE struct {
	core     *httpd.Core
	store    *Store
	messages string // path of POSTs
}

// NewSSE makes the front. messages is the path of POSTs, without the prefix.
func NewSSE(core *httpd.Core, store *Store, messages string) *SSE { return &SSE{core, store, messages} }

// Subscribe serves the stream. The session lives as long as it, and as long as the client
// has a valid token: that of the stream, or a later one of a POST.
func (f *SSE) Subscribe(w http.ResponseWriter, r *http.Request) {
	if _, events := httpd.Accepts(r); !events {
		httpd.ProtocolFault(w, http.StatusNotAcceptable, "the Accept header must allow text/event-stream")
		return
	}
	if !httpd.NoBody(w, r) {
		return
	}
	s := newSession(f.core, "")
	s.principal = httpd.Principal(r)
	f.store.name(s)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.validity.end = cancel
	s.validity.extend(r)
	defer s.validity.stop()
	st := f.core.NewStream(w)
	st.PushEvents(mcp.AppendEvent(nil, mcp.Event{
		Name: mcp.EventEndpoint,
		Data: []byte(f.core.Prefix(r) + f.messages + "?session_id=" + s.id),
	}))
	if _, err := s.streams.carry(st, false, 0, 0); err != nil {
		panic(err) // it is new
	}
	if !f.core.Calls.Enter() { // closing
		st.Break()
		f.core.Fail(w, http.StatusServiceUnavailable, mcp.ID{}, httpd.ErrStopping)
		return
	}
	err := f.store.enroll(s)
	f.core.Calls.Leave()
	if err != nil {
		st.Break()
		f.core.Fail(w, http.StatusServiceUnavailable, mcp.ID{}, err)
		return
	}
	st.Run(ctx.Done(), nil, nil)
	f.store.end(s, httpd.ErrClientGone)
}

// Post serves a POST: 202, and the responses go to the stream.
func (f *SSE) Post(w http.ResponseWriter, r *http.Request) {
	p := &httpd.Post{W: w, R: r}
	if !f.core.Parse(p) {
		return
	}
	defer p.Body.Release()
	id := r.URL.Query().Get("session_id")
	if id == "" {
		f.core.Fail(w, http.StatusBadRequest, p.ID(), &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "session_id is missing; open a stream, and POST to the path in its first event"})
		return
	}
	s := f.store.find(id, httpd.Principal(r))
	if s == nil {
		f.core.Fail(w, http.StatusNotFound, p.ID(), errSessionOver)
		return
	}
	s.validity.extend(r)
	if p.Batch && s.protocol() != mcp.V20250326 {
		f.core.Fail(w, http.StatusBadRequest, mcp.ID{}, httpd.ErrNoBatches)
		return
	}
	if !p.Body.CountIn(&s.inbound) {
		f.core.Fail(w, http.StatusServiceUnavailable, p.ID(), httpd.ErrShareRoom)
		return
	}
	requests, err := f.admit(p, s)
	switch {
	case errors.Is(err, httpd.ErrStopping):
		f.core.Fail(w, http.StatusServiceUnavailable, p.ID(), err)
		return
	case err != nil:
		// Without an id: with it, it would be the response to the request in flight.
		f.core.Fail(w, http.StatusBadRequest, mcp.ID{}, err)
		return
	}
	for _, m := range p.Messages {
		if m.Kind() == mcp.Request {
			f.dispatch(p, s, requests[0])
			requests = requests[1:]
			continue
		}
		if err := s.receive(p, m); err != nil {
			f.dismiss(s, requests)
			f.core.Fail(w, s.noticeStatus(err), mcp.ID{}, err)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// admitted is a request of a POST that is entered in the session, so that a cancellation
// which follows finds it. One that the session refused has an error, which goes to the
// stream.
type admitted struct {
	request *mcp.Message
	ctx     context.Context
	cancel  context.CancelCauseFunc
	conn    exchange.Conn
	client  *exchange.Client
	err     error
}

// admit enters all requests of a POST in the session, or none: one with the id of another
// in flight cannot be answered on the stream that both share.
func (f *SSE) admit(p *httpd.Post, s *session) (all []*admitted, err error) {
	for _, m := range p.Messages {
		if m.Kind() != mcp.Request {
			continue
		}
		if !f.core.Calls.Enter() {
			f.dismiss(s, all)
			return nil, httpd.ErrStopping
		}
		a := &admitted{request: m}
		a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(p.R.Context()))
		a.conn, a.client, a.err = s.begin(m.ID, m.Method, &call{cancel: a.cancel})
		if errors.Is(a.err, errInFlight) {
			a.cancel(nil)
			f.core.Calls.Leave()
			f.dismiss(s, all)
			return nil, errInFlight
		}
		all = append(all, a)
	}
	return all, nil
}

// dismiss removes requests that were admitted.
func (f *SSE) dismiss(s *session, all []*admitted) {
	for _, a := range all {
		if a.err == nil {
			s.finish(a.request.ID)
		}
		a.cancel(nil)
		f.core.Calls.Leave()
	}
}

// dispatch handles a request asynchronously.
func (f *SSE) dispatch(p *httpd.Post, s *session, a *admitted) {
	m, err := a.request, a.err
	begun := err == nil
	if begun {
		err = httpd.SessionEraOnly(p.R, m)
	}
	x := &exchange.Exchange{Client: a.client, Caller: exchange.CallerOf(p.R.Context()), Source: f.core.SourceOf(p.R), Request: m, Peer: s, Conn: a.conn}
	if err == nil {
		x.Meta, err = mcp.ReadMeta(m.Params)
	}
	if err == nil && m.Method == mcp.MethodInitialize {
		if x.Client, err = declare(m, s.principal); err == nil {
			x.Open = f.opener(s)
		}
	}
	p.Body.Retain()
	s.answering.Enter()
	go func() {
		defer f.core.Calls.Leave()
		defer s.answering.Leave()
		defer p.Body.Release()
		defer a.cancel(nil)
		var response *mcp.Message
		switch {
		case errors.Is(err, errUninitialized) && m.Method == mcp.MethodPing:
			// The one request that is allowed before initialize (MCP, Lifecycle,
			// Initialization). It concerns the gateway only.
			response = mcp.NewResult(m.ID, json.RawMessage(`{}`))
		case err != nil:
			response = mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
		default:
			response = f.core.Outcome(a.ctx, x)
		}
		put := s.conclude
		if !begun {
			put = s.streams.pushOwn
		}
		f.respond(s, response, put)
	}()
}

// opener opens the session's connection and watches it afterwards: the stream ends when the
// server does, so that the client begins another session.
func (f *SSE) opener(s *session) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if err := f.store.open(ctx, s, x.Client); err != nil {
			return nil, err
		}
		s.conn.Listen() // the client listens already
		go func() {
			select {
			case <-s.conn.Done():
				f.store.settle(s)
				f.store.end(s, errServerLost)
			case <-s.ended:
			}
		}()
		return mcp.NewResult(x.Request.ID, s.conn.InitializeResult()), nil
	}
}

// respond puts a response on the session's stream, by put. A client that does not read its
// responses is given up, so that it does not wait for one that was dropped.
func (f *SSE) respond(s *session, m *mcp.Message, put func(*mcp.Message) error) {
	if listens, _ := s.streams.listens(); !listens {
		return // the session is over, and the client gone
	}
	err := f.core.AwaitRoom(s.ended, func() error { return put(m) })
	if errors.Is(err, httpd.ErrAnswerRoom) {
		err = put(&mcp.Message{ID: m.ID, Error: httpd.ErrAnswerRoom})
	}
	if err != nil {
		f.core.Log.Debug("session ended", "reason", err)
		f.store.end(s, httpd.ErrClientGone)
	}
}
