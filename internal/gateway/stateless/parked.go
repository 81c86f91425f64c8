package stateless

import (
	"slices"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
)

// maxParked bounds the calls that wait for their clients.
const maxParked = 1_000

// parkedCalls are the calls that wait for their client, and those that it has continued, by
// id.
type parkedCalls struct {
	core *httpd.Core

	mu    sync.Mutex
	calls map[string]*call
}

// add lets c wait. A response that comes meanwhile is kept for the client as long.
func (t *parkedCalls) add(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[string]*call{}
	}
	if t.calls[c.id] == nil {
		c.body = c.body.Retain()
	}
	t.calls[c.id] = c
	c.parked, c.timer = time.Now(), time.AfterFunc(t.core.Timing.Parked, func() { t.abandon(c) })
	t.fit(c)
}

// fit ends the calls that have waited longest, except c, until there are not more than
// maxParked, with bodies and responses of not more bytes than a quarter of Inbound: most of
// these calls are never continued, and must leave room for others. The caller holds mu.
func (t *parkedCalls) fit(c *call) {
	if len(t.calls) <= maxParked && c.bytes() == 0 {
		return
	}
	waiting, most := t.waiting(), t.core.Inbound.Max/4
	count, bytes := len(waiting), int64(0)
	for _, other := range waiting {
		bytes += other.bytes()
	}
	for _, other := range waiting {
		if n := other.bytes(); other != c && (count > maxParked || bytes > most && n > 0) {
			count, bytes = count-1, bytes-n
			t.take(other)
			other.cancel(errAbandoned)
		}
	}
}

// bytes is the part of the budgets that c has reserved while it waits. The caller holds the
// table's mutex.
func (c *call) bytes() int64 { return c.body.Size() + c.answer.Size() }

// waiting are the calls that wait for their client, the one that has waited longest first.
// The caller holds mu.
func (t *parkedCalls) waiting() []*call {
	var out []*call
	for _, c := range t.calls {
		if !c.parked.IsZero() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *call) int { return a.parked.Compare(b.parked) })
	return out
}

// resume ends the wait of c, whose client has continued it; false when it was too late.
func (t *parkedCalls) resume(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] == nil {
		return false
	}
	c.timer.Stop()
	c.parked = time.Time{}
	return true
}

// abandon cancels c if it still waits, and reports whether it did.
func (t *parkedCalls) abandon(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] == nil || c.parked.IsZero() {
		return false
	}
	t.take(c)
	c.cancel(errAbandoned)
	return true
}

// take removes c and releases what it holds. The caller holds mu.
func (t *parkedCalls) take(c *call) {
	c.notes.close()
	if t.calls[c.id] == nil {
		return
	}
	c.timer.Stop() // it refers to c
	delete(t.calls, c.id)
	c.body.Release()
	c.answer.Release()
	c.answer = nil
}

// keepAnswer keeps the reservation for the response of c while c is in the table.
func (t *parkedCalls) keepAnswer(c *call, reserved *httpd.Reservation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] == nil {
		reserved.Release()
		return
	}
	c.answer = reserved
	t.fit(c)
}

// len is the number of calls in the table.
func (t *parkedCalls) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}

// evict cancels the call that has waited longest for its client's answers.
func (t *parkedCalls) evict() {
	t.mu.Lock()
	waiting := t.waiting()
	t.mu.Unlock()
	for _, c := range waiting {
		c.mu.Lock()
		asks := len(c.open) > 0 // otherwise it has its response, and holds nothing at the server
		c.mu.Unlock()
		if asks && t.abandon(c) {
			return
		}
	}
}

func (t *parkedCalls) get(id string) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[id]
}

func (t *parkedCalls) remove(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(c)
}

// close removes all calls, after they were cancelled.
func (t *parkedCalls) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		t.take(c)
	}
}
