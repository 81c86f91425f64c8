package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// table holds the sessions by their id. The id is the only way to a session.
type table struct {
	mu       sync.Mutex
	sessions map[string]*session
	max      int
	closed   bool
	buried   graves
	past     atomic.Int64 // bytes of the sessions' past
}

// take takes s out. One that was revived stays known as ended: its id could
// revive it again.
func (t *table) take(s *session) {
	delete(t.sessions, s.id)
	if s.revived && !t.closed {
		t.buried.add(s.serial, time.Now())
	}
}

// isBuried reports whether the session of that serial was here, and ended.
func (t *table) isBuried(s serial) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buried.has(s)
}

// graves are sessions that ended, oldest first, in bounded number and for as
// long as they could come back.
type graves struct {
	order []grave
	known map[serial]struct{}
}

type grave struct {
	serial serial
	since  time.Time
}

func (g *graves) has(s serial) bool { _, ok := g.known[s]; return ok }

func (g *graves) add(s serial, now time.Time) {
	if g.known == nil {
		g.known = map[serial]struct{}{}
	}
	g.known[s] = struct{}{}
	g.order = append(g.order, grave{s, now})
	for len(g.order) > maxBuried || now.Sub(g.order[0].since) > reviveAge {
		delete(g.known, g.order[0].serial)
		g.order = g.order[1:]
	}
}

func (t *table) init(max int) { t.sessions, t.max = map[string]*session{}, max }

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

func (t *table) get(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[id]
}

// add enters s. At the limit the sessions that have been idle longest make
// room, a tenth of them at once; they are returned for the caller to end. ok is
// false when there is no room, or the table is closed.
func (t *table) add(s *session) (evicted []*session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	if len(t.sessions) >= t.max {
		evicted = t.evict()
	}
	if len(t.sessions) >= t.max {
		return nil, false
	}
	t.sessions[s.id] = s
	return evicted, true
}

// remove takes s out, if it is in.
func (t *table) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[s.id] == s {
		t.take(s)
	}
}

// close empties the table for good.
func (t *table) close() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.takeIf(func(*session) bool { return true })
}

// expire takes out the sessions that have been idle since before, and those
// whose server is gone.
func (t *table) expire(before time.Time) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeIf(func(s *session) bool { return s.expired(before) })
}

// trim drops what is in the past of the sessions and nobody will come back for.
func (t *table) trim(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		s.trim(before)
	}
}

func (t *table) takeIf(fits func(*session) bool) []*session {
	var out []*session
	for _, s := range t.sessions {
		if fits(s) {
			t.take(s)
			out = append(out, s)
		}
	}
	return out
}

func (t *table) evict() []*session {
	type idler struct {
		s     *session
		since time.Time
	}
	var idle []idler
	for _, s := range t.sessions {
		if since, ok := s.idleSince(); ok {
			idle = append(idle, idler{s, since})
		}
	}
	slices.SortFunc(idle, func(a, b idler) int { return a.since.Compare(b.since) })
	var out []*session
	for _, i := range idle[:min(len(idle), t.max/10+1)] {
		t.take(i.s)
		out = append(out, i.s)
	}
	return out
}

// expired reports whether s has been idle since before, or lost its server.
func (s *session) expired(before time.Time) bool {
	if !s.alive() {
		return true
	}
	since, idle := s.idleSince()
	return idle && since.Before(before)
}
