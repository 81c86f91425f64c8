package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
)

const (
	// A lease is longer than a request. Of a process that died it ends by itself.
	requestTimeout = 20 * time.Second
	leaseTime      = 25 * time.Second
	// acquireTimeout bounds the wait for another process's lease, and saveTimeout the attempts
	// to save an answer: it may be the only copy of a refresh token.
	acquireTimeout = leaseTime + 5*time.Second
	saveTimeout    = 2 * time.Minute
	// Waits between attempts begin with minPause and double up to maxPause.
	minPause, maxPause = 20 * time.Millisecond, 500 * time.Millisecond
	// A failed refresh is not repeated for failedTime. maxFailed bounds how many are known.
	failedTime = 3 * time.Second
	maxFailed  = 4096
)

// flightKey is a state of a login. Each is refreshed once.
type flightKey struct {
	key, login string
	refreshes  uint64
}

// flight is a refresh in this process. Next and err are set when done is closed.
type flight struct {
	began time.Time
	done  chan struct{}
	next  *record
	err   error
	// until is when another attempt may begin, if this one failed. Vault.mu guards it.
	until time.Time
}

// refresh returns the record that follows r: by a request of this process, or of another one.
// The record may be one that was refused, or r itself while that is still valid and its
// refresh takes long.
func (v *Vault) refresh(ctx context.Context, b Binding, r *record, rejected string) (*record, error) {
	f := v.join(ctx, b, r, rejected)
	last := time.Now().Add(waitExpired)
	if rejected == "" && r.valid(time.Now()) {
		if !f.wait(ctx, f.began.Add(waitValid)) && ctx.Err() == nil && r.valid(time.Now()) {
			return r, nil
		}
	}
	switch {
	case f.wait(ctx, last):
		return f.next, f.err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: the refresh takes too long", ErrUnavailable)
}

// wait waits until the flight is done, or returns false when ctx or the time ends first.
func (f *flight) wait(ctx context.Context, limit time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	select {
	case <-f.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// join returns the refresh of r in this process, and begins it if there is none. It continues
// when ctx ends: an answer must be saved.
func (v *Vault) join(ctx context.Context, b Binding, r *record, rejected string) *flight {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := flightKey{r.Key, r.Login, r.Refreshes}
	now := time.Now()
	if f := v.flights[key]; f != nil && (f.until.IsZero() || now.Before(f.until)) {
		return f
	}
	f := &flight{began: now, done: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	started := v.tasks.Go(func() {
		f.next, f.err = v.fly(ctx, b, r, rejected)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.land(key, f)
		close(f.done)
	})
	if !started {
		f.err = fmt.Errorf("%w: it is closing", ErrUnavailable)
		close(f.done)
		return f
	}
	v.flights[key] = f
	return f
}

// land removes a flight, unless it failed: then it keeps others from failing too, for a
// while. The caller holds v.mu.
func (v *Vault) land(key flightKey, f *flight) {
	now := time.Now()
	if len(v.flights) > maxFailed {
		for k, other := range v.flights {
			if !other.until.IsZero() && !now.Before(other.until) {
				delete(v.flights, k)
			}
		}
	}
	if f.err == nil || len(v.flights) > maxFailed {
		delete(v.flights, key)
		return
	}
	f.until = now.Add(failedTime)
}

// fly refreshes r under the lease of its key.
func (v *Vault) fly(ctx context.Context, b Binding, r *record, rejected string) (*record, error) {
	release, now, err := v.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	if release == nil {
		return now, nil
	}
	defer release()
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	refresher := v.refresher(b.Provider)
	if refresher == nil {
		return nil, fmt.Errorf("%w: the provider was removed", ErrUnavailable)
	}
	tokens, err := refresher.Refresh(request, now.Tokens)
	if err == nil {
		next := now.next(tokens, time.Now(), rejected)
		if err = checkTokens(next.Tokens); err == nil {
			return v.save(ctx, b, now.raw, next)
		}
	}
	if errors.Is(err, upstream.ErrExpired) {
		v.log.Info("the provider refused a refresh token; a new login is needed", "provider", b.Provider, "error", err)
		return v.save(ctx, b, now.raw, now.refused())
	}
	v.log.Warn("the provider's token cannot be refreshed", "provider", b.Provider, "error", err)
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// acquire acquires the lease for the refresh of r, and returns its release with the record as
// it is stored now. If that is another one than r, another process was faster: then there is
// no lease.
func (v *Vault) acquire(ctx context.Context, r *record) (release func(), now *record, err error) {
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		release, err := v.store.Lease(ctx, r.Key, leaseTime)
		if err != nil && !errors.Is(err, storage.ErrHeld) {
			return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		// The holder before may have saved just before it released.
		now, err := v.fetch(ctx, r.Key)
		done := err != nil || !now.same(r)
		switch {
		case release != nil && !done:
			return release, now, nil
		case release != nil:
			release()
		}
		if done {
			return nil, now, err
		}
		if !wait(ctx, pause) {
			return nil, nil, fmt.Errorf("%w: another process refreshes the token", ErrUnavailable)
		}
	}
}

// save stores next in place of the record old, and returns what is stored then: next, or what
// another process stored meanwhile if next does not follow it. It tries for saveTimeout while
// the store cannot be reached.
func (v *Vault) save(ctx context.Context, b Binding, old []byte, next *record) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		stored, replace, err := v.swap(ctx, old, next)
		switch {
		case err == nil && stored != nil, errors.Is(err, ErrLogin):
			return stored, err
		case err == nil:
			old = replace
			continue
		}
		v.log.Warn("a refreshed token cannot be saved yet", "provider", b.Provider, "error", err)
		if !wait(ctx, pause) {
			return nil, fmt.Errorf("it cannot be saved: %w", err)
		}
	}
}

// swap tries once to store next in place of old. It returns the record that is stored then,
// or nil and the one to replace at the next attempt.
func (v *Vault) swap(ctx context.Context, old []byte, next *record) (stored *record, replace []byte, err error) {
	lifetime := time.Until(next.Ends)
	if lifetime <= 0 {
		return nil, nil, ErrLogin
	}
	if next.raw == nil {
		if next.raw, err = v.seal(next); err != nil {
			return nil, nil, err
		}
	}
	err = v.store.Swap(ctx, next.Key, old, next.raw, lifetime)
	switch {
	case err == nil:
		v.recent.put(next)
		return next, nil, nil
	case !errors.Is(err, storage.ErrChanged):
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// Deleted, replaced by another process, or stored by an attempt whose answer was lost.
	now, err := v.fetch(ctx, next.Key)
	switch {
	case err != nil:
		return nil, nil, err
	case next.succeeds(now):
		return nil, now.raw, nil
	}
	return now, nil, nil
}

// wait waits for d, or returns false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
