package gateway

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// shared holds what a stateless gateway has instead of its clients' sessions:
// one connection to the server for each protocol version, opened when somebody
// needs it and opened again when the server has ended it. Its clients declare
// nothing, so the server has no reason to ask them anything.
type shared struct {
	opening singleflight.Group

	mu       sync.Mutex
	closed   bool
	sessions map[mcp.Version]*session
	lastCall int64
}

// anonymous returns the session that all clients of the version share.
func (g *Gateway) anonymous(ctx context.Context, v mcp.Version) (*session, error) {
	if s := g.shared.get(v); s != nil {
		return s, nil
	}
	// Several may wait for it, so none of them can cancel it.
	return awaited(ctx, g.shared.opening.DoChan(string(v), func() (any, error) {
		if s := g.shared.get(v); s != nil {
			return s, nil
		}
		s := g.newSession("")
		s.shared = true
		if err := g.open(g.ctx, s, &exchange.Client{Version: v}); err != nil {
			return nil, err
		}
		before, ok := g.shared.put(v, s)
		if before != nil {
			g.release(before.end(errServerLost))
		}
		if !ok {
			g.release(s.end(errStopping))
			return nil, errStopping
		}
		return s, nil
	}))
}

func (t *shared) get(v mcp.Version) *session {
	t.mu.Lock()
	s := t.sessions[v]
	t.mu.Unlock()
	if s == nil || !s.alive() {
		return nil
	}
	return s
}

// put keeps s for v and returns what was there before. ok is false when the
// gateway is closed.
func (t *shared) put(v mcp.Version, s *session) (before *session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	if t.sessions == nil {
		t.sessions = map[mcp.Version]*session{}
	}
	before, t.sessions[v] = t.sessions[v], s
	return before, true
}

// key returns a key for a call: ids of different clients may be the same.
func (t *shared) key() mcp.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastCall++
	return mcp.IntID(t.lastCall)
}

func (t *shared) close() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.takeIf(func(*session) bool { return true })
}

func (t *shared) expire(before time.Time) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeIf(func(s *session) bool { return s.expired(before) })
}

func (t *shared) takeIf(fits func(*session) bool) []*session {
	var out []*session
	for v, s := range t.sessions {
		if fits(s) {
			delete(t.sessions, v)
			out = append(out, s)
		}
	}
	return out
}
