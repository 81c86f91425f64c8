package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// restoreTime bounds the start of what ran before a replacement that failed.
const restoreTime = 3 * time.Minute

// Replace stores next in place of the workload's Spec, which must be of the same name, and
// runs it if the workload runs. When it does not start, the earlier Spec is stored and runs
// again, also when ctx has ended meanwhile; the error describes both. A workload that does
// not run is not started.
func (m *Manager) Replace(ctx context.Context, next *workload.Spec, progress func(Event)) (*workload.Status, error) {
	name := next.Name
	if err := workload.Validate(next); err != nil {
		return nil, err
	}
	before, err := m.store.Get(name)
	if err != nil {
		return nil, err
	}
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		if err := m.store.Put(next); err != nil {
			return nil, err
		}
		return m.Status(ctx, name)
	}
	// Before it is stopped: what cannot be started keeps running as it is.
	if _, err := m.handover(ctx, next); err != nil {
		return nil, fmt.Errorf("replace workload %q: %w; it was not stopped", name, err)
	}
	if err := m.store.clearStop(name); err != nil {
		return nil, err
	}
	if err := m.stopper.stop(ctx, name, progress); err != nil && !errors.Is(err, ErrNotRunning) {
		return nil, unfinished(err, "it is not replaced")
	}
	st, err := m.startAs(ctx, next, progress)
	if err == nil {
		return st, nil
	}
	// The end of ctx must not leave the workload down that ran before.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTime)
	defer cancel()
	if errors.Is(err, ErrStoppedEarly) || errors.Is(err, ErrRemovedEarly) {
		return nil, errors.Join(err, m.putBack(before)) // another command ended it
	}
	if _, back := m.startAs(ctx, before, progress); back != nil {
		return nil, fmt.Errorf("it does not start, and what ran before does not start any more either (%w): %w", back, err)
	}
	return nil, fmt.Errorf("it does not start, and what ran before runs again: %w", err)
}

// startAs stores a Spec and starts it.
func (m *Manager) startAs(ctx context.Context, spec *workload.Spec, progress func(Event)) (*workload.Status, error) {
	if err := m.putBack(spec); err != nil {
		return nil, err
	}
	return m.start(ctx, spec.Name, progress)
}

// putBack stores a Spec, unless the workload was removed meanwhile.
func (m *Manager) putBack(spec *workload.Spec) error {
	if _, err := m.store.Get(spec.Name); errors.Is(err, ErrNotFound) {
		return fmt.Errorf("workload %q was %w", spec.Name, ErrRemovedEarly)
	}
	return m.store.Put(spec)
}

// LockUpgrade makes this process the only one that upgrades a workload, until the returned
// function is called.
func (s *Store) LockUpgrade(name string) (unlock func(), err error) {
	if _, err := s.Get(name); err != nil {
		return nil, err // and no directory is made
	}
	lock := flock.New(filepath.Join(s.Dir(name), "upgrade.lock"), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock workload %q: %w", name, err)
	}
	if !locked {
		return nil, fmt.Errorf("workload %q is being upgraded by another command; wait for its end", name)
	}
	return func() { _ = lock.Unlock() }, nil // closing the file is what unlocks it
}
