package wire

import "sync"

// Group counts the goroutines and calls that must end before its owner is closed.
type Group struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// Go runs f on a goroutine and returns true. After Close it returns false and does not
// run f.
func (w *Group) Go(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Go(f)
	return true
}

// Enter makes Close wait until the caller calls Leave, and returns true. After Close it
// returns false, and the caller must not call Leave.
func (w *Group) Enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Add(1)
	return true
}

// Leave ends one successful Enter.
func (w *Group) Leave() { w.group.Done() }

// Close makes later calls of Go and Enter fail, and waits for the earlier ones to end.
func (w *Group) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}
