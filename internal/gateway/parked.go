package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// parkedCalls are those that wait for their client, by id. Its mutex guards their
// times too.
type parkedCalls struct {
	mu    sync.Mutex
	calls map[string]*modernCall
}

func (t *parkedCalls) add(c *modernCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[string]*modernCall{}
	}
	c.parked = time.Now()
	if t.calls[c.id] == nil {
		c.body = c.body.keep()
	}
	t.calls[c.id] = c
	if len(t.calls) <= maxParked {
		return
	}
	// Most of those that wait are never come back to: the one that has waited
	// longest makes room.
	oldest := c
	for _, other := range t.calls {
		if other.parked.Before(oldest.parked) {
			oldest = other
		}
	}
	t.take(oldest)
	oldest.cancel(errAbandoned)
}

// take takes c out, and gives back what it keeps. The caller holds mu.
func (t *parkedCalls) take(c *modernCall) {
	if t.calls[c.id] == nil {
		return
	}
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
		alone := c.reply == nil && len(c.open) > 0
		c.mu.Unlock()
		if alone {
			t.remove(c)
			c.cancel(errAbandoned)
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
	var all []*modernCall
	for _, c := range t.calls {
		all = append(all, c)
		t.take(c)
	}
	t.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		c.timer.Stop()
		c.mu.Unlock()
	}
}
