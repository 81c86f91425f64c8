package gateway

import (
	"slices"
	"sync"
	"time"
)

// parkedCalls are those that wait for their client, and those that it has come back
// to, by id. Its mutex guards their times and timers too.
type parkedCalls struct {
	max int64 // bytes that those who wait may hold together

	mu    sync.Mutex
	calls map[string]*modernCall
}

// add lets c wait for so long.
func (t *parkedCalls) add(c *modernCall, patience time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[string]*modernCall{}
	}
	if t.calls[c.id] == nil {
		c.body = c.body.keep()
	}
	t.calls[c.id] = c
	c.parked, c.timer = time.Now(), time.AfterFunc(patience, func() { t.abandon(c) })
	t.fit(c)
}

// fit ends those that have waited longest, until the others are not too many and do not
// hold too much beside the newcomer c. The caller holds mu.
func (t *parkedCalls) fit(c *modernCall) {
	if len(t.calls) <= maxParked && c.held() == 0 {
		return
	}
	waiting := t.waiting()
	count, bytes := len(waiting), int64(0)
	for _, other := range waiting {
		bytes += other.held()
	}
	for _, other := range waiting {
		if held := other.held(); other != c && (count > maxParked || bytes > t.max && held > 0) {
			count, bytes = count-1, bytes-held
			t.take(other)
			other.cancel(errAbandoned)
		}
	}
}

// held is how many bytes of the budgets c holds while it waits. The caller holds the
// table's mutex.
func (c *modernCall) held() int64 { return c.body.size() + c.answer.size() }

// waiting are the calls that wait for their client, the one that has waited longest
// first. The caller holds mu.
func (t *parkedCalls) waiting() []*modernCall {
	var out []*modernCall
	for _, c := range t.calls {
		if !c.parked.IsZero() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *modernCall) int { return a.parked.Compare(b.parked) })
	return out
}

// resume lets c wait no more, since its client is back; false when it came too late.
func (t *parkedCalls) resume(c *modernCall) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] == nil {
		return false
	}
	c.timer.Stop()
	c.parked = time.Time{}
	return true
}

// abandon ends c if it still waits, and reports whether it did.
func (t *parkedCalls) abandon(c *modernCall) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] == nil || c.parked.IsZero() {
		return false
	}
	t.take(c)
	c.cancel(errAbandoned)
	return true
}

// take takes c out, and gives back what it keeps. The caller holds mu.
func (t *parkedCalls) take(c *modernCall) {
	c.notes.close()
	if t.calls[c.id] == nil {
		return
	}
	c.timer.Stop() // it holds on to c
	delete(t.calls, c.id)
	c.body.drop()
	c.answer.drop()
	c.answer = nil
}

// lend gives c the loan of its response for as long as it is in the table.
func (t *parkedCalls) lend(c *modernCall, l *loan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] == nil {
		l.drop()
		return
	}
	c.answer = l
	t.fit(c)
}

// makeRoom ends the call that has waited for its client longest. Most of those that
// wait are never come back to, and what they hold at the server others need now.
func (t *parkedCalls) makeRoom() {
	t.mu.Lock()
	waiting := t.waiting()
	t.mu.Unlock()
	for _, c := range waiting {
		c.mu.Lock()
		asks := len(c.open) > 0 // what has its outcome holds nothing
		c.mu.Unlock()
		if asks && t.abandon(c) {
			return
		}
	}
}

func (t *parkedCalls) get(id string) *modernCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[id]
}

func (t *parkedCalls) remove(c *modernCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(c)
}

// close lets none wait any more, when the gateway has ended their calls.
func (t *parkedCalls) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		t.take(c)
	}
}
