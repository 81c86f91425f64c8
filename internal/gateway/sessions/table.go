package sessions

import (
	"slices"
	"sync"
	"time"
)

// maxTombstones bounds the ended sessions that are remembered.
const maxTombstones = 20_000

// table holds the sessions by their id. Only the id leads to a session.
type table struct {
	mu       sync.Mutex
	sessions map[string]*session
	max      *int
	closed   bool
	ended    tombstones
}

func newTable(max *int) table { return table{sessions: map[string]*session{}, max: max} }

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

// add enters s. At the limit the sessions that have been idle longest make room, a tenth of
// them at once; they are returned for the caller to end. ok is false when there is no room,
// or the table is closed.
func (t *table) add(s *session) (evicted []*session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	if len(t.sessions) >= *t.max {
		evicted = t.evict()
	}
	if len(t.sessions) >= *t.max {
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

// take takes s out. One that was resumed leaves a tombstone: its id could resume it again.
func (t *table) take(s *session) {
	delete(t.sessions, s.id)
	if s.resumed && !t.closed {
		t.ended.add(s.serial, time.Now())
	}
}

// hasEnded reports whether the session of that serial was resumed here, and ended.
func (t *table) hasEnded(s serial) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended.has(s)
}

// close empties the table for good.
func (t *table) close() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.takeIf(func(*session) bool { return true })
}

// expire takes out the sessions that have been idle since before, and those whose server is
// gone.
func (t *table) expire(before time.Time) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeIf(expired(before))
}

// trim drops events of the sessions that were read before the time.
func (t *table) trim(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		s.streams.trim(before)
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
	for _, i := range idle[:min(len(idle), *t.max/10+1)] {
		t.take(i.s)
		out = append(out, i.s)
	}
	return out
}

// tombstones are the serials of sessions that ended, oldest first, in bounded number and
// for as long as they could be resumed.
type tombstones struct {
	order []tombstone
	known map[serial]struct{}
}

type tombstone struct {
	serial serial
	since  time.Time
}

func (t *tombstones) has(s serial) bool { _, ok := t.known[s]; return ok }

func (t *tombstones) add(s serial, now time.Time) {
	if t.known == nil {
		t.known = map[serial]struct{}{}
	}
	t.known[s] = struct{}{}
	t.order = append(t.order, tombstone{s, now})
	for len(t.order) > maxTombstones || now.Sub(t.order[0].since) > resumeAge {
		delete(t.known, t.order[0].serial)
		t.order = t.order[1:]
	}
}

// expired selects the sessions that have been idle since before, or lost their server.
func expired(before time.Time) func(*session) bool {
	return func(s *session) bool {
		if !s.alive() {
			return true
		}
		since, idle := s.idleSince()
		return idle && since.Before(before)
	}
}
