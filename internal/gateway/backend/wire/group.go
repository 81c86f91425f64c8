package wire

import "sync"

// Group are goroutines that belong to something that can be closed.
type Group struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// Go runs f on a goroutine, unless wait was called already.
func (w *Group) Go(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Go(f)
	return true
}

// Enter counts the caller among those that wait waits for until it leaves, unless
// wait was called already.
func (w *Group) Enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Add(1)
	return true
}

// Leave ends what Enter began.
func (w *Group) Leave() { w.group.Done() }

// Close lets no more start and waits for those that run.
func (w *Group) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}
