package correlate

import (
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Deliver assigns the response m to the request that it answers, and reports whether
// there is one. A response without an id is an error for a message that the server could
// not read (JSON-RPC 2.0 section 5): it answers the sole pending request, if there is
// exactly one. A server that does not know a method has read the id, so such an error
// without one is about a notification.
func (t *RequestTable) Deliver(m *mcp.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.named(m.ID)
	if f == nil && wire.IsUnidentified(m) && m.Error.Code != mcp.CodeMethodNotFound {
		f = t.only()
	}
	if f == nil {
		return false
	}
	t.complete(f, m)
	return true
}

// named is the request that a server means by id, nil for none. The caller holds mu.
func (t *RequestTable) named(id mcp.ID) *PendingRequest {
	if f := t.byID[id]; f != nil {
		return f
	}
	return t.byID[id.AsNumber()] // ours are numbers
}

// DeliverTo is deliver for a response that came where only f's can come. One
// to another request is refused.
func (t *RequestTable) DeliverTo(f *PendingRequest, m *mcp.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.ID] != f || !m.ID.Means(f.ID) && !wire.IsUnidentified(m) {
		return false
	}
	f.onEnd = nil
	t.complete(f, m)
	return true
}

// complete ends f with its answer. The caller holds mu.
func (t *RequestTable) complete(f *PendingRequest, m *mcp.Message) {
	f.Answer = &mcp.Message{ID: f.ClientID, Result: m.Result, Error: m.Error}
	t.end(f)
}

// end takes f out, whose answer or error is set. The caller holds mu.
func (t *RequestTable) end(f *PendingRequest) {
	delete(t.byID, f.ID)
	close(f.Done)
	if f.onEnd != nil {
		f.onEnd()
	}
}

// Unreadable deals with b, which a server sent as a message and [mcp.Parse]
// refused with err: a request whose answer it was ends with an error. on is the
// flight on whose own stream it came, nil for none. unreadable reports whether nobody
// can be left waiting for what was in b, which also holds for text that is no JSON
// object or array at all, such as a log line.
func (t *RequestTable) Unreadable(b []byte, err error, on *PendingRequest) bool {
	if !wire.LooksLikeJSON(b) {
		return true
	}
	ids, lost := mcp.Answered(b)
	settled := false
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if f := t.named(id); f != nil {
			f.Err = wire.ServerGone("the server's answer to %s cannot be understood: %v", f.Method, err)
			t.end(f)
			settled = true
		}
	}
	if on != nil {
		return settled // the caller knows which request it answers
	}
	if f := t.only(); lost && f != nil {
		f.Err = wire.ServerGone("an answer of the server cannot be understood: %v", err)
		t.end(f)
	}
	return settled || lost
}
