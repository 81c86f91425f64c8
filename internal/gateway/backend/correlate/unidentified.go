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

// named returns the pending request that a server refers to by id, nil for none. The caller
// holds mu.
func (t *RequestTable) named(id mcp.ID) *PendingRequest {
	if f := t.byID[id]; f != nil {
		return f
	}
	return t.byID[id.AsNumber()] // a server may return the number as a string
}

// DeliverTo delivers the response m, which arrived on the HTTP response to f, to f. It
// returns false if m responds to another request or if f is no longer pending.
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

// complete ends f with the response m. The caller holds mu.
func (t *RequestTable) complete(f *PendingRequest, m *mcp.Message) {
	f.Answer = &mcp.Message{ID: f.ClientID, Result: m.Result, Error: m.Error}
	t.end(f)
}

// end removes f, whose Answer or Err is set. The caller holds mu.
func (t *RequestTable) end(f *PendingRequest) {
	delete(t.byID, f.ID)
	close(f.Done)
	if f.onEnd != nil {
		f.onEnd()
	}
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
		if f := t.named(id); f != nil {
			f.Err = wire.ServerGone("the server's answer to %s cannot be understood: %v", f.Method, err)
			t.end(f)
			settled = true
		}
	}
	if on != nil || !lost {
		return settled // the caller ends on if necessary
	}
	if f := t.only(); f != nil {
		f.Err = wire.ServerGone("an answer of the server cannot be understood: %v", err)
		t.end(f)
	}
	return len(t.byID) == 0
}
