package stdio

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

const (
	// maxQueue bounds how many sessions may wait for a process.
	maxQueue = 256
	// busyTicks is how many of the 120 ticks of Config.QueueTimeout a caller waits before
	// the pool counts as busy.
	busyTicks = 4
)

// slots bounds the processes of a pool. At the bound, callers wait for a slot.
type slots struct {
	// held has a token for every process, from before it is started until it has exited.
	held    chan struct{}
	timeout time.Duration // Config.QueueTimeout
	waiting atomic.Int64
	log     *slog.Logger
	// reclaim ends an idle process for a caller that waits.
	reclaim func() reclaimed
	// evictCall ends a call that waits for its client: see [exchange.Backend], SetEvictor.
	evictCall func()

	mu   sync.Mutex
	busy string // see [exchange.Processes], Busy
}

func newSlots(cfg *Config, reclaim func() reclaimed) *slots {
	return &slots{held: make(chan struct{}, cfg.MaxProcesses), timeout: cfg.QueueTimeout, log: cfg.Log, reclaim: reclaim, evictCall: func() {}}
}

// acquire waits for a free slot and acquires it. Meanwhile it reclaims idle processes.
func (s *slots) acquire(ctx context.Context) error {
	select {
	case s.held <- struct{}{}:
		return nil
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxQueue {
		s.setBusy(true)
		return wire.ServerGone("all %d server processes of this workload are busy and %d sessions wait for one already; try again later, or allow more with --max-processes", cap(s.held), maxQueue)
	}
	timeout := time.NewTimer(s.timeout)
	defer timeout.Stop()
	tick := time.NewTicker(s.timeout / 120)
	defer tick.Stop()
	s.reclaim()
	for ticks := 1; ; {
		select {
		case s.held <- struct{}{}:
			s.setBusy(false)
			return nil
		case <-tick.C:
			if ticks++; ticks > busyTicks {
				s.setBusy(true)
			}
			if s.reclaim() == noneIdle {
				s.evictCall()
			}
		case <-timeout.C:
			s.setBusy(true)
			return wire.ServerGone("all %d server processes of this workload are busy, and none became free within %s; try again later, or allow more with --max-processes", cap(s.held), s.timeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// release frees an acquired slot. It never blocks.
func (s *slots) release() { <-s.held }

// enough reports whether every caller that waits gets a slot when ending more become free.
func (s *slots) enough(ending int) bool {
	return int64(cap(s.held)-len(s.held)+ending) >= s.waiting.Load()
}

// setBusy records whether callers wait for a slot and none becomes free. It logs a change.
func (s *slots) setBusy(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case busy == (s.busy != ""):
	case busy:
		s.busy = fmt.Sprintf("all %d server processes are busy and callers wait for one; --max-processes allows more", cap(s.held))
		s.log.Warn("clients wait for a server process", "reason", s.busy, "waiting", s.waiting.Load())
	default:
		s.busy = ""
		s.log.Info("a server process is free again")
	}
}

// report returns the counts of the slots; running is the number of processes.
func (s *slots) report(running int) exchange.Processes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return exchange.Processes{Running: running, Max: cap(s.held), Waiting: int(s.waiting.Load()), Busy: s.busy}
}
