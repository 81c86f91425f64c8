package stdio

import (
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// At the cap of processes, a caller that needs one more gets the slot of another process:
// of a shared process that no session uses, else of the process that has been idle for
// longest. A process is idle when no request is in flight on it. Its sessions end, and
// their clients initialize again.

const (
	// minIdle is how long a process has been idle before it is reclaimed, so that a
	// client which sends one request after the other keeps its session.
	minIdle = 250 * time.Millisecond
	// minUnused is the same before the first request: a client that has just
	// initialized is about to send one.
	minUnused = 5 * time.Second
)

// errReclaimed ends the process of idle sessions.
var errReclaimed = wire.ServerGone("the server's process was ended because it was idle and another client needed one; initialize again")

// reclaimed is the outcome of [Pool.reclaim].
type reclaimed int

const (
	notNeeded reclaimed = iota // enough slots are free, or become free soon
	one                        // one process was ended
	tooRecent                  // a process is idle, but not for long enough
	noneIdle
)

// reclaim ends one process if fewer slots become free than callers wait.
func (b *Pool) reclaim() reclaimed {
	b.mu.Lock()
	p, outcome := b.idlest()
	if p == nil {
		b.mu.Unlock()
		return outcome
	}
	why := errReclaimed
	if len(p.use.sessions) == 0 {
		why = errUnused
	}
	if p.shared != nil {
		p.shared.withdraw()
	}
	b.mu.Unlock()
	p.end(why)
	return one
}

// idlest returns the process to end, nil for none. The caller holds mu.
func (b *Pool) idlest() (*process, reclaimed) {
	ending := 0
	outcome := noneIdle
	var best *process
	for p := range b.processes {
		switch {
		case p.closing.Load() || p.over():
			ending++
		case !p.idle():
		case !p.use.reclaimable(time.Now()):
			outcome = tooRecent
		case best == nil || p.use.before(&best.use):
			best = p
		}
	}
	if b.slots.enough(ending) {
		return nil, notNeeded
	}
	if best == nil || best.use.class() == livenessCheck && outcome == tooRecent {
		return nil, outcome
	}
	return best, one
}

// usage records who uses a process. It is guarded by Pool.mu. A session counts as a user, and
// so does each of its requests: a session that moved away may still wait for a response here.
type usage struct {
	users    int
	sessions map[*conn]struct{}
	lastUse  time.Time // when a session began or a request ended
	used     bool      // a request has ended
}

// begin adds a session.
func (u *usage) begin(c *conn) {
	u.sessions[c] = struct{}{}
	u.users++
	u.lastUse = time.Now()
}

// end removes one user: a request, or a session that was removed from sessions.
func (u *usage) end() {
	u.users--
	u.lastUse, u.used = time.Now(), true
}

// quiet reports whether no request is in flight.
func (u *usage) quiet() bool { return u.users == len(u.sessions) }

// reclaimable reports whether an idle process may be ended at now.
func (u *usage) reclaimable(now time.Time) bool {
	switch {
	case len(u.sessions) == 0:
		return true
	case u.used:
		return now.Sub(u.lastUse) >= minIdle
	}
	return now.Sub(u.lastUse) >= minUnused
}

// before orders idle processes: unused ones first, the one of the liveness check last, and
// otherwise by their last use.
func (u *usage) before(other *usage) bool {
	if a, b := u.class(), other.class(); a != b {
		return a < b
	}
	return u.lastUse.Before(other.lastUse)
}

// The classes of idle processes, in the order in which they are reclaimed.
const (
	unused        = iota // without a session
	ofClients            // with sessions of clients
	livenessCheck        // with the session of the liveness check
)

func (u *usage) class() int {
	if len(u.sessions) == 0 {
		return unused
	}
	for c := range u.sessions {
		if c.client.LivenessCheck {
			return livenessCheck
		}
	}
	return ofClients
}

// Processes returns the counts of [exchange.ServerInfo], Processes.
func (b *Pool) Processes() exchange.Processes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slots.report(len(b.processes))
}
