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

// maxAttempts bounds the reconnections in a row that bring nothing new for
// a request that waits. The session's own stream is never given up.
const maxAttempts = 8

// streamState is what must be known to continue a stream that ended.
type streamState struct {
	wire.Backoff
	lastID string
}

// errNotMessage ends a stream whose server sends what is no message.
var errNotMessage = errors.New("it sent something that is not a JSON-RPC message")

// play sends out and reads until f has its answer. rest is what is left of the
// stream that brought it, nil for nothing. The error is why there will be no
// answer; when f has one that does not matter.
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

// playRefusal handles a response that is no 200. A JSON-RPC error in it is the
// server's own answer.
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

// playStream reads the stream of f, and what continues it, up to f's answer.
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

// continued opens what continues f's stream, which ended with broken. It is nil
// when nothing does, or f needs nothing more.
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

// resume continues f's stream by GET with Last-Event-ID (MCP 2025-11-25,
// Streamable HTTP, Resumability and Redelivery). again: it failed, and another attempt
// may not.
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

// maxEventID bounds the bytes of an event's id that we come back with.
const maxEventID = 4 << 10

// canComeBack: an event's id may be any text (HTML, Server-sent events), but a
// stream can be continued after it only if it fits into a header.
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

// openStream is a response that is a stream of events.
type openStream struct {
	body   io.Closer
	events *mcp.EventReader
}

func newOpenStream(resp *http.Response) *openStream {
	return &openStream{resp.Body, mcp.NewEventReader(resp.Body, mcp.MaxEvent)}
}

// pump handles the messages of one stream of events until it ends, and returns
// how it ended; or until it has brought the answer that f waits for. f is the
// request the stream belongs to, nil for the session's.
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

// finish hears out a stream that has brought f's answer: when the server ends it
// in time, its connection is used again.
func (c *streamableConn) finish(s *openStream, f *correlate.PendingRequest, cancel context.CancelFunc) {
	defer cancel()
	defer func() { _ = s.body.Close() }()
	defer context.AfterFunc(c.ctx, cancel)()
	defer time.AfterFunc(drainTime, cancel).Stop()
	_, _ = c.pump(s, f, &streamState{})
}

// parse reads one message, or several where the version has batches.
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

// handle does what one message of the server asks for. f is the request on
// whose stream it came, nil for the session's stream.
func (c *streamableConn) handle(f *correlate.PendingRequest, m *mcp.Message) {
	live, shared := f != nil && c.pending.Has(f), c.pending.Shared.Load()
	// Among requests of several clients, what comes on the stream of one that is over
	// is for none of the others.
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
		case live && !(shared && m.Method == mcp.NotificationProgress): // whose token is restored
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

// meansSessionGone tells a lost session from another refusal. It is 404 (MCP,
// Streamable HTTP, Session Management, 3), but many servers say 400 with words,
// since an example of the TypeScript SDK does.
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

// isLostBy reports whether a refusal means that the server does not have the session,
// or not any more: it has forgotten it, or speaks the stateless era only.
func (c *streamableConn) isLostBy(f *refusal) bool {
	return c.HasSession() && f.meansSessionGone() || f.meansNoSessions()
}
