package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file has what goes between a session's client and its server outside of calls.

var (
	errNoStream       = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client has no open stream to receive a request"}
	errShared         = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the clients of a stateless workload cannot receive requests"}
	errTooManyNotices = &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("more than %d notifications of this session wait for the server to accept them", maxNotices)}
	errUnaccepted     = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server did not accept the notification in time"}
)

// Notify implements [exchange.Peer]: it sends a notification on the session's stream, or
// keeps it until there is one.
func (s *session) Notify(m *mcp.Message) {
	s.streams.dropped.Note(s.core.Log, m, s.streams.sendOwn(m))
}

// AwaitRoom implements [exchange.Peer].
func (s *session) AwaitRoom(ctx context.Context) error {
	return s.streams.awaitRoom(ctx, &s.streams.own)
}

// Ask implements [exchange.Peer]: it sends a request that belongs to no exchange on the
// session's stream. A client opens that stream right after its initialize, so Ask waits
// for it for a while; not when requests are in flight, whose streams are the better way.
func (s *session) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	if s.shared {
		return nil, errShared
	}
	release, err := s.core.Hold(httpd.SizeOf(m))
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.listening(ctx); err != nil {
		return nil, err
	}
	// Another stream may replace this one before the answer arrives. The request stays
	// valid.
	return s.ask(ctx, m, s.streams.sendOwn, nil)
}

// Hold implements [exchange.Peer].
func (s *session) Hold(bytes int) (release func(), err error) { return s.core.Hold(bytes) }

// listening waits until the client has opened the session's stream.
func (s *session) listening(ctx context.Context) error {
	grace := time.NewTimer(s.core.Timing.AskGrace)
	defer grace.Stop()
	for {
		s.mu.Lock()
		busy, over := len(s.calls) > 0, s.over
		s.mu.Unlock()
		listens, attached := s.streams.listens()
		switch {
		case over:
			return httpd.ErrClientGone
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

// ask sends m by put under an id of the gateway's own, and waits for the answer, for ctx,
// for the end of the session, or until gone is closed.
func (s *session) ask(ctx context.Context, m *mcp.Message, put func(*mcp.Message) error, gone <-chan struct{}) (*mcp.Message, error) {
	id, answered := s.questions.add()
	defer func() {
		s.questions.remove(id)
		httpd.Discard(answered)
	}()
	if err := put(&mcp.Message{ID: id, Method: m.Method, Params: m.Params}); err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		a.ReleaseAfter(ctx)
		return &mcp.Message{ID: m.ID, Result: a.Result, Error: a.Error}, nil
	case <-ctx.Done():
		// The client can remove the request from its screen (MCP, Cancellation).
		_ = put(mcp.Cancelled(id, "the server no longer waits for the answer"))
		return nil, context.Cause(ctx)
	case <-s.ended:
		return nil, httpd.ErrClientGone
	case <-gone:
		return nil, httpd.ErrClientGone
	}
}

// receive handles a notification or a response of the client, in the POST p.
func (s *session) receive(p *httpd.Post, m *mcp.Message) error {
	if m.Kind() == mcp.Response {
		s.touch()
		if !s.questions.answer(m, p.Body) {
			s.core.Log.Debug("a response that belongs to no request was dropped")
		}
		return nil
	}
	conn, err := s.connection()
	if err != nil {
		return err
	}
	switch m.Method {
	case mcp.NotificationInitialized: // the backend sent it when it opened the connection
		return nil
	case mcp.NotificationCancelled:
		s.cancel(m)
		return nil
	}
	return s.forward(p.R.Context(), conn, m)
}

// forward sends a client's notification to the server. It does not end with the client's
// HTTP request, so there is a limit of time and number for a server that does not read.
func (s *session) forward(ctx context.Context, conn exchange.Conn, m *mcp.Message) error {
	defer s.notices.Add(-1)
	if s.notices.Add(1) > maxNotices {
		return errTooManyNotices
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.core.Timing.Notice, errUnaccepted)
	defer cancel()
	err := conn.Notify(ctx, m)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// callPeer is the [exchange.Peer] of a call whose response is the reply to a POST.
type callPeer struct {
	exchange.PeerDefaults
	session *session
	reply   httpd.Reply
}

// Notify implements [exchange.Peer]. A notification about the whole session goes to the
// session's stream when the client has opened it, any other before the responses. What the
// reply cannot carry, because the client accepts no event stream here or is gone, goes to
// the session's stream as well: closing a POST does not cancel its call (MCP 2025-11-25,
// basic/transports, Sending Messages).
func (p *callPeer) Notify(m *mcp.Message) {
	listens, _ := p.session.streams.listens()
	sessionWide := aboutSession(m.Method)
	if listens && sessionWide {
		p.session.Notify(m)
		return
	}
	err := p.reply.Send(m)
	if errors.Is(err, httpd.ErrStreamOver) && (listens || sessionWide) {
		p.session.Notify(m)
		return
	}
	p.session.streams.dropped.Note(p.session.core.Log, m, err)
}

// AwaitRoom implements [exchange.Peer].
func (p *callPeer) AwaitRoom(ctx context.Context) error {
	if p.reply.IsStream() {
		return p.reply.AwaitRoom(ctx)
	}
	return p.session.AwaitRoom(ctx)
}

// aboutSession reports whether notifications of the method belong to no request.
func aboutSession(method string) bool {
	switch method {
	case mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged,
		mcp.NotificationResourceUpdated, mcp.NotificationElicitationCompleted:
		return true
	}
	return false
}

// Ask implements [exchange.Peer]: it sends a request on the reply, or on the session's
// stream when the reply cannot be an event stream. When the client disconnects and does not
// come back in time, the request fails.
func (p *callPeer) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	if p.session.shared {
		return nil, errShared
	}
	release, err := p.Hold(httpd.SizeOf(m))
	if err != nil {
		return nil, err
	}
	defer release()
	gone, ok := p.reply.Open()
	if !ok {
		if listens, _ := p.session.streams.listens(); !listens {
			return nil, errNoStream
		}
		return p.session.ask(ctx, m, p.session.streams.sendOwn, nil)
	}
	select {
	case <-gone:
		return nil, httpd.ErrClientGone
	default:
	}
	return p.session.ask(ctx, m, p.reply.Send, gone)
}

// Hold implements [exchange.Peer].
func (p *callPeer) Hold(bytes int) (release func(), err error) { return p.session.core.Hold(bytes) }
