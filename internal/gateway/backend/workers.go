package backend

import "sync"

// workers are goroutines that belong to something that can be closed.
type workers struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// start runs f on a goroutine, unless wait was called already.
func (w *workers) start(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Go(f)
	return true
}

// enter counts the caller among those that wait waits for until it leaves, unless
// wait was called already.
func (w *workers) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Add(1)
	return true
}

func (w *workers) leave() { w.group.Done() }

// wait lets no more start and waits for those that run.
func (w *workers) wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}
