package httpd

import (
	"context"
	"sync"
)

// Group counts what is in progress. It can be closed for new members, and waited for. The
// zero Group is ready.
type Group struct {
	mu     sync.Mutex
	n      int
	closed bool
	zero   chan struct{} // made by a waiter, closed at the next zero
}

// Enter adds a member, or returns false when the group is closed.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	return true
}

// Leave removes a member.
func (g *Group) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.zero != nil {
		close(g.zero)
		g.zero = nil
	}
}

// Close closes the group for new members; false means that it was closed before.
func (g *Group) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.closed
	g.closed = true
	return !was
}

// Len is the number of members.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// Wait waits until there is no member or ctx ends, and returns how many are left.
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
