package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// parkedCalls are those that wait for their client, and those that it has come back
// to, by id. Its mutex guards their times and timers too.
type parkedCalls struct {
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
	if len(t.calls) <= maxParked {
		return
	}
	// Most of those that wait are never come back to: the one that has waited
	// longest makes room.
	oldest, waiting := c, 0
	for _, other := range t.calls {
		if other.parked.IsZero() {
			continue
		}
		waiting++
		if other.parked.Before(oldest.parked) {
			oldest = other
		}
	}
	if waiting > maxParked {
		t.take(oldest)
		oldest.cancel(errAbandoned)
	}
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
}

// makeRoom ends the call that has waited for its client longest. Most of those that
// wait are never come back to, and what they hold at the server others need now.
func (t *parkedCalls) makeRoom() {
	t.mu.Lock()
	waiting := slices.SortedFunc(maps.Values(t.calls), func(a, b *modernCall) int { return a.parked.Compare(b.parked) })
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

func (t *parkedCalls) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
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
