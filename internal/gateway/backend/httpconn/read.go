package httpconn

import (
	"io"
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// streamState is the state that resumes a stream that ended.
type streamState struct {
	wire.Backoff
	lastID string
}

func isTransient(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// maxEventID bounds an event id, in bytes, that is sent as Last-Event-ID.
const maxEventID = 4 << 10

// resumable reports whether an event id can be sent as Last-Event-ID. An id may be any
// text (HTML, Server-sent events), but must be valid in a header.
func resumable(id string) bool {
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
		if id := s.events.LastEventID(); id != state.lastID && resumable(id) {
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
		c.handle(f, messages)
		if waits && !c.pending.Has(f) {
			return true, nil
		}
	}
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

// handle dispatches messages of the server: see [serverSession.dispatch].
func (c *streamableConn) handle(f *correlate.PendingRequest, messages []*mcp.Message) {
	for _, m := range messages {
		if err := c.dispatch(f, m); err != nil {
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
