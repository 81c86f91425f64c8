package correlate

import (
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Deliver assigns the response m to its pending request, and reports whether there is one.
// A response without an id is an error for a message that the server could not read
// (JSON-RPC 2.0 section 5): it is assigned to the sole pending request, if there is exactly
// one. An error "method not found" without an id is about a notification, since the server
// could read the message.
func (t *RequestTable) Deliver(m *mcp.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.pending.named(m.ID)
	if f == nil && wire.IsUnidentified(m) && m.Error.Code != mcp.CodeMethodNotFound {
		f = t.pending.only()
	}
	if f == nil {
		return false
	}
	t.pending.complete(f, m)
	return true
}

// DeliverTo delivers the response m, which arrived on the HTTP response to f, to f. It
// returns false if m responds to another request or if f is no longer pending.
func (t *RequestTable) DeliverTo(f *PendingRequest, m *mcp.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[f.ID] != f || !m.ID.Means(f.ID) && !wire.IsUnidentified(m) {
		return false
	}
	f.onEnd = nil
	t.pending.complete(f, m)
	return true
}

// Unreadable handles b, which the server sent and [mcp.Parse] rejected with err. A pending
// request that b responds to ends with an error. on is the request on whose own stream b
// arrived, nil for none. If b is a response whose id cannot be read and on is nil, the sole
// pending request ends.
//
// The result is false if a pending request may wait for a response that was in b: a caller
// whose requests must not wait then ends them. That is so when b is a response whose id
// cannot be read and several requests are pending: it belongs to none of them in
// particular. The result is true if every request that b responds to has ended, and if b
// is not a JSON object or array, such as a log line.
func (t *RequestTable) Unreadable(b []byte, err error, on *PendingRequest) bool {
	if !wire.LooksLikeJSON(b) {
		return true
	}
	ids, lost := mcp.Answered(b)
	settled := false
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if f := t.pending.named(id); f != nil {
			t.pending.fail(f, wire.ServerGone("the server's answer to %s cannot be understood: %v", f.Method, err))
			settled = true
		}
	}
	if on != nil || !lost {
		return settled // the caller ends on if necessary
	}
	if f := t.pending.only(); f != nil {
		t.pending.fail(f, wire.ServerGone("an answer of the server cannot be understood: %v", err))
	}
	return len(t.pending) == 0
}
