package stdio

import (
	"fmt"
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
	// busyTicks is how many of the 120 ticks of Config.QueueTimeout a caller waits before
	// the pool counts as busy.
	busyTicks = 4
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
	if len(p.sessions) == 0 {
		why = errUnused
	}
	if p.shared != nil {
		b.withdraw(p.shared)
	}
	b.mu.Unlock()
	p.end(why)
	return one
}

// idlest returns the process to end, nil for none. The caller holds mu.
func (b *Pool) idlest() (*process, reclaimed) {
	soon := cap(b.slots) - len(b.slots)
	outcome := noneIdle
	var best *process
	for p := range b.processes {
		switch {
		case p.over():
			soon++
		case !p.idle():
		case !p.reclaimable(time.Now()):
			outcome = tooRecent
		case best == nil || p.before(best):
			best = p
		}
	}
	if int64(soon) >= b.waiting.Load() {
		return nil, notNeeded
	}
	if best == nil || best.class() == livenessCheck && outcome == tooRecent {
		return nil, outcome
	}
	return best, one
}

// idle reports whether p has started and no request is in flight on it. The caller holds
// backend.mu.
func (p *process) idle() bool {
	if c := p.shared; c != nil && (c.process == nil || c.waiters > 0) {
		return false
	}
	return p.users == len(p.sessions) && (p.shared != nil || p.users > 0)
}

// reclaimable reports whether an idle process may be ended at now. The caller holds
// backend.mu.
func (p *process) reclaimable(now time.Time) bool {
	switch {
	case len(p.sessions) == 0:
		return true
	case p.used:
		return now.Sub(p.lastUse) >= minIdle
	}
	return now.Sub(p.lastUse) >= minUnused
}

// before orders idle processes: unused ones first, the one of the liveness check last, and
// otherwise by their last use. The caller holds backend.mu.
func (p *process) before(q *process) bool {
	if a, b := p.class(), q.class(); a != b {
		return a < b
	}
	return p.lastUse.Before(q.lastUse)
}

// The classes of idle processes, in the order in which they are reclaimed.
const (
	unused        = iota // without a session
	ofClients            // with sessions of clients
	livenessCheck        // with the session of the liveness check
)

func (p *process) class() int {
	if len(p.sessions) == 0 {
		return unused
	}
	for c := range p.sessions {
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
	return exchange.Processes{Running: len(b.processes), Max: b.cfg.MaxProcesses, Waiting: b.Waiting(), Busy: b.busy}
}

// setBusy records whether callers wait for a slot and none becomes free. It logs a change.
func (b *Pool) setBusy(busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteBusy(busy)
}

// noteBusy is setBusy for a caller that holds mu.
func (b *Pool) noteBusy(busy bool) {
	switch {
	case busy == (b.busy != ""):
	case busy:
		b.busy = fmt.Sprintf("all %d server processes are busy and callers wait for one; --max-processes allows more", b.cfg.MaxProcesses)
		b.cfg.Log.Warn("clients wait for a server process", "reason", b.busy, "waiting", b.Waiting())
	default:
		b.busy = ""
		b.cfg.Log.Info("a server process is free again")
	}
}
