package correlate

import (
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// unidentifiedResponses are answers of a server that do not say to which request: an error with
// id null, for what it could not read (JSON-RPC 2.0 section 5), or an answer that we
// cannot read. As long as more requests may be meant than there are such answers,
// nobody's ends because of them: it may have been carried out, and its client would
// have it done again. The others get answers of their own, and whose are left then
// get none.
type unidentifiedResponses struct {
	count int
	upTo  int64 // the number of the newest request that may be meant
	last  unidentifiedResponse
}

// unidentifiedResponse is either the server's own error, or why there is no answer.
type unidentifiedResponse struct {
	answer *mcp.Error
	err    error
}

// errUnattributable ends a request on a shared line whose own answer this may be, with words
// that may be about another's.
var errUnattributable = wire.ServerGone("the server's answer is lost: it sent one that does not say which request it is for")

// Deliver gives the response m to the flight it answers and reports whether it is
// anybody's yet.
func (t *RequestTable) Deliver(m *mcp.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.named(m.ID); f != nil {
		if f.number >= t.told {
			t.told = 0
		}
		t.complete(f, m)
		return true
	}
	return wire.IsUnidentified(m) && !t.isAboutNotification(m) && t.lose(unidentifiedResponse{answer: m.Error})
}

// named is the request that a server means by id, nil for none. The caller holds mu.
func (t *RequestTable) named(id mcp.ID) *PendingRequest {
	if f := t.byID[id]; f != nil {
		return f
	}
	return t.byID[id.AsNumber()] // ours are numbers
}

// isAboutNotification: many a server answers a notification that it does not know as
// if it were a request. It has read that one. The caller holds mu.
func (t *RequestTable) isAboutNotification(m *mcp.Message) bool {
	return m.Error.Code == mcp.CodeMethodNotFound && t.told != 0
}

// Tell notes that a notification goes to the server.
func (t *RequestTable) Tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = t.Last.Load() + 1
}

// lose takes note of an answer whose request cannot be told, and reports whether that
// has ended any. The caller holds mu.
func (t *RequestTable) lose(a unidentifiedResponse) bool {
	if time.Now().Before(t.doubt) {
		return false
	}
	t.lost.count, t.lost.upTo, t.lost.last = min(t.lost.count, len(t.byID))+1, t.Last.Load(), a
	one := len(t.byID) == 1
	if !one && t.Shared.Load() {
		t.lost.last = unidentifiedResponse{err: errUnattributable}
	}
	return t.assign()
}

// assign ends the requests that must be the ones whose answers are lost, and reports
// whether there are any. The caller holds mu.
func (t *RequestTable) assign() (ended bool) {
	if t.lost.count == 0 {
		return false
	}
	var left []*PendingRequest
	for _, f := range t.byID {
		if f.number > t.lost.upTo || f.read {
			continue
		}
		if left = append(left, f); len(left) > t.lost.count {
			return false
		}
	}
	a := t.lost.last
	t.lost = unidentifiedResponses{}
	for _, f := range left {
		if f.Err = a.err; a.answer != nil {
			f.Answer = &mcp.Message{ID: f.ClientID, Error: a.answer}
		}
		t.end(f)
	}
	return len(left) > 0
}

// unanswered is called when f has left without an answer: one that is lost may have
// been its. The caller holds mu.
func (t *RequestTable) unanswered(f *PendingRequest) {
	if t.lost.count > 0 && f.number <= t.lost.upTo && !f.read {
		t.lost.count--
	}
	t.assign()
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
	t.assign()
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
	t.assign()
	if on != nil {
		return settled // the caller knows whose it is else
	}
	if lost {
		t.lose(unidentifiedResponse{err: wire.ServerGone("an answer of the server cannot be understood: %v", err)})
		settled = true
	}
	return settled
}
