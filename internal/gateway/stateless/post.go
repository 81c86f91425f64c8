// Package stateless is the front of the stateless era: streamable HTTP of MCP 2026-07-28
// (basic/transports/streamable-http), on the same path as the session era's.
//
// Every POST stands alone: it declares the client and its capabilities, and closing it
// cancels it. A request of the server meanwhile ends the POST with an input_required
// result, and the call waits for the POST that brings the answer (Multi Round-Trip
// Requests). These waiting calls are all that is kept between two POSTs.
package stateless

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Front serves the clients of the stateless era.
type Front struct {
	core   *httpd.Core
	parked parkedCalls
}

// New makes the front.
func New(core *httpd.Core) *Front {
	return &Front{core: core, parked: parkedCalls{core: core}}
}

// Evict ends the call that has waited for its client longest, if there is one. Most of those
// that wait are never continued, and others need what they hold at the server.
func (f *Front) Evict() { f.parked.evict() }

// Parked is the number of calls that wait for their client, or did.
func (f *Front) Parked() int { return f.parked.len() }

// Close ends the calls that wait, after [httpd.Core.Context] has ended.
func (f *Front) Close() { f.parked.close() }

// Post serves a POST of the stateless era. It has one message, with the hints h.
func (f *Front) Post(p *httpd.Post, h httpd.EraHints) {
	m := p.Messages[0]
	switch {
	case p.Batch:
		f.core.Fail(p.W, http.StatusBadRequest, mcp.ID{}, httpd.ErrNoBatches)
		return
	case m.Kind() == mcp.Response:
		f.core.Fail(p.W, http.StatusBadRequest, mcp.ID{}, &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: "clients send no responses in protocol version 2026-07-28; answers to a server's requests go into inputResponses"})
		return
	}
	client, err := identify(p.R, m, h)
	if err == nil && m.Kind() == mcp.Request && slices.Contains(removedMethods, m.Method) {
		err = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "protocol version 2026-07-28 has no " + m.Method}
	}
	if err == nil {
		err = checkHeaders(p.R, m)
	}
	if err != nil {
		f.core.Fail(p.W, statusOf(err), p.ID(), err)
		return
	}
	if m.Kind() == mcp.Notification {
		// None has a meaning here: closing a POST cancels it, and there is no state to
		// change.
		p.W.WriteHeader(http.StatusAccepted)
		return
	}
	if !f.core.Calls.Enter() {
		f.core.Fail(p.W, http.StatusServiceUnavailable, m.ID, httpd.ErrStopping)
		return
	}
	defer f.core.Calls.Leave()
	x := &exchange.Exchange{Client: client, Caller: exchange.CallerOf(p.R.Context()), Source: f.core.SourceOf(p.R), Request: m, Meta: h.Meta, Headers: paramHeaders(p.R.Header)}
	x.Open = f.core.Backend.Do
	if m.Method == mcp.MethodSubscriptionsListen {
		f.subscription(p, x)
		return
	}
	c, err := f.callOf(p, x)
	if err != nil {
		f.core.Fail(p.W, statusOf(err), m.ID, err)
		return
	}
	f.serve(p, c, m)
}

// removedMethods are requests of the session era that this one must not understand, even
// where the server knows them.
var removedMethods = []string{
	mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
	"tasks/list", "tasks/result", // the tasks extension has tasks/get and tasks/update
}

// subscription serves subscriptions/listen until the client closes it. When the gateway
// ends, or the client's token expires, the stream ends with a result, so that the client
// can tell that from a lost connection.
func (f *Front) subscription(p *httpd.Post, x *exchange.Exchange) {
	if !p.Events {
		f.core.Fail(p.W, http.StatusNotAcceptable, x.Request.ID, &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: "the Accept header of subscriptions/listen must allow text/event-stream"})
		return
	}
	valid, stop := httpd.StreamContext(p.R)
	defer stop()
	ctx, cancel := context.WithCancelCause(valid)
	defer cancel(nil)
	defer context.AfterFunc(f.core.Draining, func() { cancel(httpd.ErrStopping) })()
	reply := f.core.NewReply(p)
	peer := &listener{core: f.core, reply: reply}
	defer peer.dropped.Report(f.core.Log, "a subscription")
	x.Peer = peer
	reply.Start()
	response := f.core.Outcome(ctx, x)
	if cause := context.Cause(ctx); errors.Is(cause, httpd.ErrStopping) || errors.Is(cause, context.DeadlineExceeded) {
		response = mcp.SubscriptionEnded(x.Request.ID)
	}
	reply.Finish(responseStatus(response), []*mcp.Message{response}, false)
}

// listener is the [exchange.Peer] of a subscription.
type listener struct {
	exchange.PeerDefaults
	core    *httpd.Core
	reply   *httpd.Reply
	dropped httpd.Drops
}

// Notify implements [exchange.Peer].
func (l *listener) Notify(m *mcp.Message) {
	l.dropped.Note(l.core.Log, m, l.reply.Send(m))
}

// AwaitRoom implements [exchange.Peer].
func (l *listener) AwaitRoom(ctx context.Context) error { return l.reply.AwaitRoom(ctx) }

// Ask implements [exchange.Peer].
func (l *listener) Ask(context.Context, *mcp.Message) (*mcp.Message, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "a subscription cannot carry requests of the server"}
}

// statusOf is the HTTP status of an error of the stateless era (MCP 2026-07-28,
// basic/transports/streamable-http, Error Handling).
func statusOf(err error) int {
	var rpc *mcp.Error
	if !errors.As(err, &rpc) {
		return http.StatusOK
	}
	switch rpc.Code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeInvalidParams, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion, mcp.CodeInvalidRequest, mcp.CodeParse:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// responseStatus is the HTTP status of a response of the stateless era.
func responseStatus(response *mcp.Message) int {
	if response.Error != nil {
		return httpd.Status(response, statusOf(response.Error))
	}
	return http.StatusOK
}
