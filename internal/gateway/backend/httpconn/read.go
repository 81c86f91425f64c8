package httpconn

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxAttempts bounds the consecutive reconnections without a new event for a pending
// request. Those of the session's own stream are not bounded.
const maxAttempts = 8

// streamState is the state that resumes a stream that ended.
type streamState struct {
	wire.Backoff
	lastID string
}

// errNotMessage ends a stream on which the server sent data that is not a message.
var errNotMessage = errors.New("it sent something that is not a JSON-RPC message")

// play sends out and reads until f has its response. rest is the remaining stream on which
// the response arrived, nil for none. The error is the reason why there will be no
// response; it has no effect if f has one.
func (c *streamableConn) play(ctx context.Context, f *correlate.PendingRequest, out *mcp.Message, first func(*http.Response) error) (rest *openStream, err error) {
	resp, err := c.post(ctx, c.url, c.header(), out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.playRefusal(f, resp, out.Method)
	}
	if first != nil {
		if err := first(resp); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
	}
	switch t := mediaType(resp); t {
	case mcp.TypeJSON:
		defer func() { _ = resp.Body.Close() }()
		return nil, c.playJSON(f, resp, out.Method)
	case mcp.TypeEventStream:
		return c.playStream(ctx, f, resp, out.Method)
	default:
		_ = resp.Body.Close()
		return nil, wire.ServerGone("the server at %s answered %s with content type %q instead of JSON or an event stream; is this the URL of an MCP server?",
			c.remote, out.Method, wire.Printable(t))
	}
}

// playRefusal handles an HTTP response whose status is not 200. A JSON-RPC error in its
// body is the server's response to f, unless it means that the session is lost.
func (c *streamableConn) playRefusal(f *correlate.PendingRequest, resp *http.Response, method string) error {
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return wire.ServerGone("the server at %s took %s with HTTP %d but gave no answer", c.remote, method, resp.StatusCode)
	}
	refused := c.refused(resp, method)
	if refused.rpc != nil && !c.isLostBy(refused) && c.pending.DeliverTo(f, refused.rpc) {
		return nil
	}
	return c.refusedHere(refused)
}

func (c *streamableConn) playJSON(f *correlate.PendingRequest, resp *http.Response, method string) error {
	body, err := c.readJSON(resp)
	if err != nil {
		return err
	}
	messages, err := c.parse(body)
	if err != nil {
		return wire.ServerGone("the server at %s answered %s with something that is not a JSON-RPC message: %v", c.remote, method, err)
	}
	for _, m := range messages {
		c.handle(f, m)
	}
	if !c.pending.Has(f) {
		return nil
	}
	return wire.ServerGone("the server at %s answered another request than %s, which it was asked", c.remote, method)
}

// playStream reads the stream of f, and those that resume it, until f has its response.
func (c *streamableConn) playStream(ctx context.Context, f *correlate.PendingRequest, resp *http.Response, method string) (rest *openStream, err error) {
	var state streamState
	s := newOpenStream(resp)
	for {
		answered, broken := c.pump(s, f, &state)
		if answered {
			return s, nil
		}
		_ = s.body.Close()
		if s, err = c.continued(ctx, f, broken, &state, method); s == nil {
			return nil, err
		}
	}
}

// continued resumes the stream of f, which ended with the error broken. It returns nil if
// the stream cannot be resumed or f is no longer pending.
func (c *streamableConn) continued(ctx context.Context, f *correlate.PendingRequest, broken error, state *streamState, method string) (*openStream, error) {
	if c.pending.Has(f) && (errors.Is(broken, mcp.ErrEventTooLarge) || errors.Is(broken, errNotMessage)) {
		return nil, wire.ServerGone("the server at %s cannot be understood answering %s: %v", c.remote, method, broken)
	}
	for c.pending.Has(f) {
		if state.lastID == "" || state.Attempts >= maxAttempts {
			return nil, wire.ServerGone("the server at %s ended the stream without answering %s", c.remote, method)
		}
		if err := wire.Sleep(ctx, state.Pause()); err != nil {
			return nil, err
		}
		state.Attempts++
		if s, again, err := c.resume(ctx, f, state); !again {
			return s, err
		}
	}
	return nil, nil
}

// resume sends one GET with Last-Event-ID for f's stream (MCP 2025-11-25, Streamable HTTP,
// Resumability and Redelivery). again reports that it failed and that another attempt may
// succeed.
func (c *streamableConn) resume(ctx context.Context, f *correlate.PendingRequest, state *streamState) (s *openStream, again bool, err error) {
	resp, err := c.get(ctx, c.header(), state.lastID)
	if err != nil {
		return nil, true, err
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp) == mcp.TypeEventStream {
		return newOpenStream(resp), false, nil
	}
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return nil, false, wire.ServerGone("the server at %s ended the stream without answering %s and does not continue it", c.remote, f.Method)
	}
	err = c.refusedHere(c.refused(resp, "to continue the answer to "+f.Method))
	return nil, isTransient(resp.StatusCode), err
}

func isTransient(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// maxEventID bounds an event id, in bytes, that is sent as Last-Event-ID.
const maxEventID = 4 << 10

// canComeBack reports whether an event id can be sent as Last-Event-ID. An id may be any
// text (HTML, Server-sent events), but must be valid in a header.
func canComeBack(id string) bool {
	if id == "" || len(id) > maxEventID {
		return false
	}
	for _, c := range []byte(id) {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// openStream is an HTTP response whose body is an event stream.
type openStream struct {
	body   io.Closer
	events *mcp.EventReader
}

func newOpenStream(resp *http.Response) *openStream {
	return &openStream{resp.Body, mcp.NewEventReader(resp.Body, mcp.MaxEvent)}
}

// pump handles the messages of an event stream until f has its response (answered), or
// until the stream ends with err. f is the request that the stream belongs to, nil for the
// session's stream.
func (c *streamableConn) pump(s *openStream, f *correlate.PendingRequest, state *streamState) (answered bool, err error) {
	waits := f != nil && c.pending.Has(f)
	for {
		ev, err := s.events.Next()
		if id := s.events.LastEventID(); id != state.lastID && canComeBack(id) {
			state.lastID, state.Attempts = id, 0
		}
		if s.events.Retry() > 0 {
			state.Retry = s.events.Retry()
		}
		if err != nil {
			return false, err
		}
		if ev.Name != mcp.EventMessage || len(ev.Data) == 0 {
			continue
		}
		messages, err := c.parse(ev.Data)
		if err != nil {
			c.log.Warn("the server sent something that is not a JSON-RPC message", "error", err)
			if !c.pending.Unreadable(ev.Data, err, f) && f != nil && c.pending.Has(f) {
				return false, errNotMessage
			}
			continue
		}
		state.Attempts = 0
		for _, m := range messages {
			c.handle(f, m)
		}
		if waits && !c.pending.Has(f) {
			return true, nil
		}
	}
}

// finish reads the rest of a stream on which f's response arrived. If the server ends the
// stream within drainTime, its connection is reused.
func (c *streamableConn) finish(s *openStream, f *correlate.PendingRequest, cancel context.CancelFunc) {
	defer cancel()
	defer func() { _ = s.body.Close() }()
	defer context.AfterFunc(c.ctx, cancel)()
	defer time.AfterFunc(drainTime, cancel).Stop()
	_, _ = c.pump(s, f, &streamState{})
}

// parse parses one message, or a batch in version 2025-03-26.
func (c *streamableConn) parse(b []byte) ([]*mcp.Message, error) {
	c.mu.Lock()
	version := c.version
	c.mu.Unlock()
	if version == mcp.V20250326 {
		messages, _, err := mcp.ParseBatch(b)
		return messages, err
	}
	m, err := mcp.Parse(b)
	return []*mcp.Message{m}, err
}

// handle dispatches one message of the server. f is the request on whose stream it
// arrived, nil for the session's stream.
func (c *streamableConn) handle(f *correlate.PendingRequest, m *mcp.Message) {
	live, shared := f != nil && c.pending.Has(f), c.pending.Shared.Load()
	// If the requests are of several clients, a message on the stream of a request that
	// has ended must not be assigned to another request.
	late := f != nil && !live && shared
	switch m.Kind() {
	case mcp.Response:
		if live && c.pending.DeliverTo(f, m) || f == nil && c.pending.Deliver(m) {
			return
		}
		c.log.Warn("the server answered a request that does not wait here", "id", m.ID.String())
	case mcp.Notification:
		switch {
		case m.Method == mcp.NotificationCancelled:
			c.serverRequests.Cancel(m)
		case correlate.IsSessionWide(m.Method):
			c.peer.Notify(m)
		case live && !(shared && m.Method == mcp.NotificationProgress): // pending.Notify restores its token
			f.Peer.Notify(m)
		case late || !c.pending.Notify(m):
			c.peer.Notify(m)
		}
	case mcp.Request:
		if err := c.serverRequests.Start(m, func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
			switch {
			case live:
				return f.Peer.Ask(ctx, q)
			case late:
				return c.peer.Ask(ctx, q)
			}
			return c.pending.SendServerRequest(ctx, q, c.peer)
		}); err != nil {
			c.lose(err)
		}
	}
}

// meansSessionGone reports whether the refusal means that the server lost the session. The
// status for that is 404 (MCP, Streamable HTTP, Session Management, 3), but many servers
// send 400 with a text about the session, as an example of the TypeScript SDK does.
func (f *refusal) meansSessionGone() bool {
	if f.rpc != nil && f.rpc.Error.Code == mcp.CodeMethodNotFound && !f.rpc.ID.IsZero() {
		return false
	}
	switch f.status {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
		if f.rpc != nil && f.rpc.Error.Code == mcp.CodeSessionNotFound {
			return true
		}
		text := strings.ToLower(f.text)
		if !strings.Contains(text, "session") {
			return false
		}
		for _, word := range []string{"not found", "no valid", "invalid", "unknown", "expired", "terminated", "does not exist"} {
			if strings.Contains(text, word) {
				return true
			}
		}
	}
	return false
}

// isLostBy reports whether a refusal means that the server does not have the session: it
// lost it, or it supports the stateless era only.
func (c *streamableConn) isLostBy(f *refusal) bool {
	return c.HasSession() && f.meansSessionGone() || f.meansNoSessions()
}
