package source

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Phases of a [store.Sync].
const (
	phaseSyncing  = "syncing"
	phaseComplete = "complete"
	phaseFailed   = "failed"
)

// parting bounds the last calls to the store when a lease is released.
const parting = 5 * time.Second

// worker synchronizes one source.
type worker struct {
	Options
	store       store.Store
	name        string
	cfg         config.Source
	source      Source
	fingerprint string
	interval    time.Duration
	due         chan struct{} // capacity 1: synchronize now
	applying    atomic.Bool   // the store applies a list, which may lock the lease
}

// hurry makes the source due now.
func (w *worker) hurry() {
	select {
	case w.due <- struct{}{}:
	default: // it is due already
	}
}

// run stands by for the lease, and leads while it has it.
func (w *worker) run(ctx context.Context) {
	trouble := ""
	for ctx.Err() == nil {
		requested := time.Now()
		held, err := w.acquire(ctx)
		switch {
		case held:
			trouble = ""
			w.lead(ctx, requested)
		case err != nil && ctx.Err() == nil:
			if text := reasonText(err); text != trouble {
				trouble = text
				w.Log.Warn("the lease of a source cannot be taken", "source", w.name, "error", text)
			}
		}
		pause(ctx, jitter(w.Lease/3))
	}
}

func (w *worker) acquire(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Lease/3)
	defer cancel()
	return w.store.Acquire(ctx, w.name, w.Owner, w.Lease)
}

// lead synchronizes while the lease is held, which was requested at the given time.
func (w *worker) lead(ctx context.Context, requested time.Time) {
	leading, stop := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { stop(w.renew(leading, requested)) })
	if w.cfg.File != nil {
		helpers.Go(func() { w.watch(leading) })
	}
	defer func() {
		stop(nil)
		helpers.Wait()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
		defer cancel()
		if err := w.store.Release(last, w.name, w.Owner); err != nil {
			w.Log.Warn("the lease of a source could not be given up; it runs out by itself", "source", w.name, "error", reasonText(err))
		}
	}()
	states, err := w.store.Syncs(leading, []string{w.name})
	if err != nil || len(states) != 1 {
		return // the next lease tries again
	}
	state := states[0]
	state.Source = w.name
	for wait := w.firstWait(state); ; wait = w.nextWait(state) {
		timer := time.NewTimer(wait)
		told := false
		select {
		case <-leading.Done():
			timer.Stop()
			return
		case <-w.due:
			timer.Stop()
			told = true
		case <-timer.C:
		}
		var lost bool
		if state, lost = w.synchronize(leading, state); lost {
			if told {
				w.hurry() // it is still due
			}
			return
		}
	}
}

// renew prolongs the lease until ctx ends. The error is why the lease was lost.
func (w *worker) renew(ctx context.Context, held time.Time) error {
	for {
		pause(ctx, w.Lease/3)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		requested := time.Now()
		ok, err := w.acquire(ctx)
		switch {
		case ok:
			held = requested
		case err == nil, time.Since(held) > w.Lease && !w.applying.Load():
			return store.ErrLeaseLost
		}
	}
}

// watch makes a file due when it changes. A file that cannot be watched is read at its
// interval.
func (w *worker) watch(ctx context.Context) {
	trouble := ""
	for ctx.Err() == nil {
		// It may have changed before the watch was set.
		err := watch(ctx, w.cfg.File.Path, w.hurry, w.hurry)
		if err == nil {
			return
		}
		if text := reasonText(err); text != trouble {
			trouble = text
			w.Log.Warn("a file cannot be watched; it is read at its interval", "source", w.name, "error", text)
		}
		pause(ctx, jitter(w.interval))
	}
}

// firstWait is the time until the first attempt, by the recorded state. A file, a
// failed source and a source with a changed configuration are due now.
func (w *worker) firstWait(state store.Sync) time.Duration {
	if w.cfg.File != nil || state.Phase != phaseComplete || w.previous(state) == "" {
		return 0
	}
	return w.nextWait(state)
}

func (w *worker) nextWait(state store.Sync) time.Duration {
	if state.Phase == phaseComplete {
		return min(max(state.LastSuccess.Add(w.interval).Sub(w.Now()), 0), w.interval)
	}
	return w.backoff(state.Failures)
}

// backoff doubles from Retry to the interval.
func (w *worker) backoff(failures int) time.Duration {
	b := backoff.ExponentialBackOff{InitialInterval: w.Retry, Multiplier: 2, MaxInterval: w.interval}
	for range min(failures-1, 30) {
		b.NextBackOff()
	}
	return jitter(min(b.NextBackOff(), w.interval))
}

// jitter is between 80 and 100 % of d, so that processes do not fetch all at once.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/5+1))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// synchronize makes one attempt and returns the state after it. lost: another
// process has the lease.
func (w *worker) synchronize(ctx context.Context, before store.Sync) (after store.Sync, lost bool) {
	began := time.Now()
	state := before
	state.Phase, state.LastAttempt = phaseSyncing, w.Now().UTC().Truncate(time.Microsecond)
	after, outcome, err := w.attempt(ctx, state)
	switch {
	case err == nil:
		w.Observe(w.name, outcome, time.Since(began))
		return after, false
	case errors.Is(err, store.ErrLeaseLost):
		return before, true
	case ctx.Err() != nil:
		// An interrupted attempt is not a failure: the state stays as it was.
		w.record(ctx, settled(before))
		return before, true
	}
	w.Observe(w.name, Failed, time.Since(began))
	state.Phase, state.Error = phaseFailed, reasonText(err)
	state.Failures++
	w.Log.Warn("a source could not be synchronized; what it listed last is kept", "source", w.name, "failures", state.Failures, "error", state.Error)
	w.record(ctx, state)
	return state, false
}

// settled is the state between attempts.
func settled(s store.Sync) store.Sync {
	if s.Phase == phaseSyncing {
		switch {
		case s.Failures > 0:
			s.Phase = phaseFailed
		case !s.LastSuccess.IsZero():
			s.Phase = phaseComplete
		default:
			s.Phase = ""
		}
	}
	return s
}

// record stores a state, also when ctx has ended.
func (w *worker) record(ctx context.Context, state store.Sync) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if err := w.store.SetSync(last, w.Owner, state); err != nil && !errors.Is(err, store.ErrLeaseLost) {
		w.Log.Warn("the state of a source could not be recorded", "source", w.name, "error", reasonText(err))
	}
}

// guard turns a panic of a parser of hostile bytes into an error.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("reading it failed inside: %v", p)
	}
}
