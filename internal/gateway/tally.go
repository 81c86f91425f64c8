package gateway

import (
	"context"
	"sync"
)

// tally counts what is under way, so that somebody can stop more from coming
// and wait for the rest. The zero tally is ready.
type tally struct {
	mu     sync.Mutex
	n      int
	closed bool
	zero   chan struct{} // made by a waiter, closed at the next zero
}

// enter counts one more, or reports that none may come any more.
func (t *tally) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.n++
	return true
}

func (t *tally) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 && t.zero != nil {
		close(t.zero)
		t.zero = nil
	}
}

// shut lets none enter any more; false means that it was shut before.
func (t *tally) shut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.closed
	t.closed = true
	return !was
}

// wait waits until all have left or ctx ends, and returns how many are left.
func (t *tally) wait(ctx context.Context) int {
	for {
		t.mu.Lock()
		n := t.n
		if n > 0 && t.zero == nil {
			t.zero = make(chan struct{})
		}
		zero := t.zero
		t.mu.Unlock()
		if n == 0 {
			return 0
		}
		select {
		case <-zero:
		case <-ctx.Done():
			t.mu.Lock()
			defer t.mu.Unlock()
			return t.n
		}
	}
}
