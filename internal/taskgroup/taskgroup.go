// Package taskgroup waits for goroutines and calls, and rejects new ones once their owner
// is closing.
package taskgroup

import (
	"context"
	"sync"
)

// Group counts the goroutines and calls in progress. The zero Group is ready.
type Group struct {
	mu      sync.Mutex
	n       int
	stopped bool
	zero    chan struct{} // made by Wait, closed when n becomes 0
}

// Go runs f on a goroutine and returns true. After Stop it returns false and does not run
// f.
func (g *Group) Go(f func()) bool {
	if !g.Enter() {
		return false
	}
	go func() {
		defer g.Leave()
		f()
	}()
	return true
}

// Enter adds a member until the caller calls Leave, and returns true. After Stop it returns
// false, and the caller must not call Leave.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.n++
	return true
}

// Leave ends one successful Enter.
func (g *Group) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.zero != nil {
		close(g.zero)
		g.zero = nil
	}
}

// Stop makes later calls of Go and Enter return false. It reports whether it is the first
// Stop.
func (g *Group) Stop() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.stopped
	g.stopped = true
	return first
}

// Close stops the group and waits until it has no member.
func (g *Group) Close() {
	g.Stop()
	g.Wait(context.Background())
}

// Len returns the number of members.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// Wait waits until the group has no member or ctx ends, and returns how many are left.
func (g *Group) Wait(ctx context.Context) int {
	for {
		g.mu.Lock()
		n := g.n
		if n > 0 && g.zero == nil {
			g.zero = make(chan struct{})
		}
		zero := g.zero
		g.mu.Unlock()
		if n == 0 {
			return 0
		}
		select {
		case <-zero:
		case <-ctx.Done():
			return g.Len()
		}
	}
}
