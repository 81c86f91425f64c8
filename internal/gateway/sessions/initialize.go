package sessions

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// initialize begins a session. A session id in the request is ignored: clients that lost
// their session may send the old one.
func (f *Streamable) initialize(p *httpd.Post, m *mcp.Message) {
	if p.Batch {
		f.core.Fail(p.W, http.StatusBadRequest, mcp.ID{}, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "initialize must not be part of a batch"})
		return
	}
	client, err := declare(m, httpd.Principal(p.R))
	var meta mcp.Meta
	if err == nil {
		meta, err = mcp.ReadMeta(m.Params)
	}
	if err != nil {
		f.core.Fail(p.W, http.StatusBadRequest, m.ID, err)
		return
	}
	if !f.core.Calls.Enter() {
		f.core.Fail(p.W, http.StatusServiceUnavailable, m.ID, httpd.ErrStopping)
		return
	}
	defer f.core.Calls.Leave()
	x := &exchange.Exchange{Client: client, Caller: exchange.CallerOf(p.R.Context()), Source: f.core.SourceOf(p.R), Request: m, Meta: meta}
	if f.core.Endpoint.Stateless {
		f.initializeShared(p, x)
		return
	}
	s := newSession(f.core, "")
	s.principal, s.streams.resumable = client.Principal, true
	status := http.StatusOK
	reply := f.core.NewReply(p)
	reply.Announce = func() string { return f.store.name(s) }
	x.Peer = s
	x.Open = func(ctx context.Context, x *exchange.Exchange) (_ *mcp.Message, err error) {
		defer func() { status = f.store.openStatus(err) }()
		if err := f.store.open(ctx, s, x.Client); err != nil {
			return nil, err
		}
		return mcp.NewResult(x.Request.ID, s.conn.InitializeResult()), nil
	}
	reply.Start()
	// The session is not in use yet, so a client that disconnects ends it.
	response := f.core.Outcome(p.R.Context(), x)
	if response.Error != nil { // by the server, or by a stage after it
		f.store.release(s.end(errDeleted))
	} else {
		f.store.name(s)
		if err := f.store.enroll(s); err != nil {
			status, response = f.store.openStatus(err), mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
		}
	}
	if !reply.Finish(status, []*mcp.Message{response}, false) {
		f.store.end(s, httpd.ErrClientGone) // its client did not receive the id
	}
}

// initializeShared responds with the InitializeResult of the shared session.
func (f *Streamable) initializeShared(p *httpd.Post, x *exchange.Exchange) {
	status := http.StatusOK
	x.Open = func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		s, err := f.store.sharedSession(ctx, x.Client.Principal, x.Client.Version)
		if err != nil {
			status = f.store.openStatus(err)
			return nil, err
		}
		return mcp.NewResult(x.Request.ID, s.conn.InitializeResult()), nil
	}
	reply := f.core.NewReply(p)
	reply.Start()
	response := f.core.Outcome(p.R.Context(), x)
	reply.Finish(status, []*mcp.Message{response}, false)
}
