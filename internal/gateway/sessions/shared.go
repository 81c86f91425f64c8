package sessions

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// shared has the sessions of a stateless gateway: one connection to the server per
// principal and protocol version, which all clients of that principal use. It is opened
// when a client needs it, and again when the server has ended it. Its clients declare
// nothing, so the server has no reason to send them requests.
type shared struct {
	opening singleflight.Group

	mu       sync.Mutex
	closed   bool
	sessions map[sharedKey]*session
	lastCall int64
}

type sharedKey struct {
	principal string
	version   mcp.Version
}

// sharedSession returns the session of the principal's clients of the version.
func (st *Store) sharedSession(ctx context.Context, principal string, v mcp.Version) (*session, error) {
	key := sharedKey{principal, v}
	if s := st.shared.get(key); s != nil {
		return s, nil
	}
	// Several requests may wait for the session; none of them cancels it.
	return await(ctx, st.shared.opening.DoChan(principal+" "+string(v), func() (any, error) {
		if s := st.shared.get(key); s != nil {
			return s, nil
		}
		if st.shared.len() >= st.core.MaxSessions {
			return nil, errFull
		}
		s := newSession(st.core, "")
		s.shared, s.streams.shared = true, true
		s.principal = principal
		if err := st.open(st.core.Context, s, &exchange.Client{Principal: principal, Version: v}); err != nil {
			return nil, err
		}
		before, ok := st.shared.put(key, s)
		if before != nil {
			st.release(before.end(errServerLost))
		}
		if !ok {
			st.release(s.end(httpd.ErrStopping))
			return nil, httpd.ErrStopping
		}
		return s, nil
	}))
}

func (t *shared) get(key sharedKey) *session {
	t.mu.Lock()
	s := t.sessions[key]
	t.mu.Unlock()
	if s == nil || !s.alive() {
		return nil
	}
	return s
}

func (t *shared) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

// put keeps s for the key and returns the one that it replaces. ok is false when the gateway is
// closed.
func (t *shared) put(key sharedKey, s *session) (before *session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	if t.sessions == nil {
		t.sessions = map[sharedKey]*session{}
	}
	before, t.sessions[key] = t.sessions[key], s
	return before, true
}

// key returns a key for a call: different clients may use the same id.
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
	return t.takeIf(expired(before))
}

func (t *shared) takeIf(fits func(*session) bool) []*session {
	var out []*session
	for key, s := range t.sessions {
		if fits(s) {
			delete(t.sessions, key)
			out = append(out, s)
		}
	}
	return out
}
