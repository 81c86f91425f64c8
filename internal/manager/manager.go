// Package manager has the workloads of this machine and what can be done with them: run,
// stop, start, restart, remove, list.
//
// The [Store] keeps the description of each workload ([workload.Spec]) on disk, and a
// [Manager] carries out the commands. The process that holds an operating-system lock owns
// the workload ([Ownership]); it responds on a control socket beside the lock. No PID file
// decides anything.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Labels that mark what Toolhaven made on an engine.
const (
	// LabelWorkload holds the workload's name.
	LabelWorkload = "dev.toolhaven.workload"
	// LabelStore holds the [Store.ID], which distinguishes stores on one engine.
	LabelStore = "dev.toolhaven.store"
	// LabelGroup holds the workload's group.
	LabelGroup = "dev.toolhaven.group"
)

// Config is what a Manager works with.
type Config struct {
	Store *Store
	// Engine connects to the container engine. It is called only when a
	// command needs one.
	Engine func(ctx context.Context) (container.Engine, error)
	// Executable is the program started as `Executable owner NAME`.
	Executable string
	// Forget drops what else is kept for a workload that is removed (its
	// secrets). It may be nil.
	Forget func(name string) error
	// Handover returns what the owner of a workload receives over its standard input: the
	// values of secrets. It must be one line. It may be nil.
	Handover func(ctx context.Context, spec *workload.Spec) ([]byte, error)
}

// Manager carries out the commands on workloads. It keeps no state: every result
// comes from locks, owners, and the engine at the time of the call.
type Manager struct {
	store   *Store
	stopper *stopper
	exe     string
	forget  func(name string) error

	handover func(ctx context.Context, spec *workload.Spec) ([]byte, error)
}

// New makes a Manager.
func New(cfg Config) *Manager {
	stopper := &stopper{store: cfg.Store, engine: cfg.Engine, pace: usualPace()}
	m := &Manager{store: cfg.Store, stopper: stopper, exe: cfg.Executable, forget: cfg.Forget, handover: cfg.Handover}
	if m.forget == nil {
		m.forget = func(string) error { return nil }
	}
	if m.handover == nil {
		m.handover = func(context.Context, *workload.Spec) ([]byte, error) { return nil, nil }
	}
	return m
}

// Event is a step on the way to a running workload, or to one that has stopped,
// for a person to see.
type Event struct {
	Stage   string `json:"stage"` // "image", "container", "server", "stop", or NoteStage
	Message string `json:"message"`
	Current int64  `json:"current,omitempty"` // bytes
	Total   int64  `json:"total,omitempty"`   // bytes; 0 when unknown
}

// NoteStage is the Stage of an Event that is no step: a remark that stays visible.
const NoteStage = "note"

// Create stores a workload without starting it.
func (m *Manager) Create(_ context.Context, spec *workload.Spec) error {
	if err := workload.Validate(spec); err != nil {
		return err
	}
	groups, err := m.store.Groups()
	if err != nil {
		return err
	}
	if spec.Group != "" && !slices.Contains(groups, spec.Group) {
		return fmt.Errorf("%w: %q; make it with `thv group create %s`", ErrGroupNotFound, spec.Group, spec.Group)
	}
	return m.store.Create(spec)
}

// Start starts a stored workload and returns when its server has answered, or, for a
// remote server that ran before, when it is being retried. ErrAlreadyRunning when it is
// running, ErrStoppedEarly when a stop has come since. A start that finds another one
// under way waits for that.
func (m *Manager) Start(ctx context.Context, name string, progress func(Event)) (*workload.Status, error) {
	if err := m.store.clearStop(name); err != nil {
		return nil, err
	}
	return m.Launch(ctx, name, progress)
}

// Launch is Start for the caller that has just created the workload: a stop since then
// has come after this start began.
func (m *Manager) Launch(ctx context.Context, name string, progress func(Event)) (*workload.Status, error) {
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if err := m.hasSpec(name, owner); err != nil {
		return nil, err
	}
	if owner == nil {
		return m.start(ctx, name, progress)
	}
	if st, err := m.Status(ctx, name); err == nil && (st.State == workload.Starting || st.State == workload.Unresponsive) {
		return m.join(ctx, name)
	}
	return nil, fmt.Errorf("workload %q is %w", name, ErrAlreadyRunning)
}

// hasSpec is an error with what to do when a workload's Spec cannot be read.
func (m *Manager) hasSpec(name string, owner *Owner) error {
	_, err := m.store.Get(name)
	switch {
	case !errors.Is(err, ErrNotFound):
		return err
	case owner != nil:
		return fmt.Errorf("the configuration of workload %q is lost, and its gateway still has it; `thv restart %s` restores it", name, name)
	case m.store.has(name):
		return fmt.Errorf("the configuration of workload %q is lost; remove it with `thv rm %s`", name, name)
	}
	return err
}

func (m *Manager) start(ctx context.Context, name string, progress func(Event)) (*workload.Status, error) {
	err := m.spawn(ctx, name, callable(progress))
	switch {
	case errors.Is(err, ErrAlreadyRunning):
		return m.join(ctx, name) // another start was quicker
	case err != nil:
		return nil, err
	}
	return m.Status(ctx, name)
}

// join waits for a start by another process. ErrAlreadyRunning when its owner does not
// answer.
func (m *Manager) join(ctx context.Context, name string) (*workload.Status, error) {
	var silent time.Time // since when its owner has not answered
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := m.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		switch st.State {
		case workload.Running, workload.Degraded:
			return st, nil
		case workload.Starting:
			silent = time.Time{}
		case workload.Unresponsive: // one that has just begun has no socket
			if silent.IsZero() {
				silent = time.Now()
			}
			if time.Since(silent) > controlTimeout {
				return nil, fmt.Errorf("workload %q is %w", name, ErrAlreadyRunning)
			}
		default:
			return nil, fmt.Errorf("workload %q was being started by another process, and is %s%s", name, st.State, because(st.Reason))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// callable is progress, or a function that does nothing in place of nil.
func callable(progress func(Event)) func(Event) {
	if progress == nil {
		return func(Event) {}
	}
	return progress
}

// Restart stops a workload if it runs and starts it again. A Spec that was lost
// from disk while the workload ran is taken back from its owner. The workload is not
// started again when ctx ends, or another command stops it, meanwhile.
func (m *Manager) Restart(ctx context.Context, name string, progress func(Event)) (*workload.Status, error) {
	if err := m.restoreSpec(ctx, name); err != nil {
		return nil, err
	}
	// Before it is stopped: what cannot be started again keeps running.
	if spec, err := m.store.Get(name); err == nil {
		if _, err := m.handover(ctx, spec); err != nil {
			return nil, fmt.Errorf("restart workload %q: %w; it was not stopped", name, err)
		}
	}
	if err := m.store.clearStop(name); err != nil {
		return nil, err
	}
	if err := m.stopper.stop(ctx, name, progress); err != nil && !errors.Is(err, ErrNotRunning) {
		return nil, unfinished(err, "it is not started again")
	}
	if err := ctx.Err(); err != nil {
		return nil, &interruption{fmt.Sprintf("workload %q is stopped, and not started again", name), err}
	}
	return m.start(ctx, name, progress)
}

// Stop ends a workload and everything of it on the engine; its Spec stays.
// ErrNotRunning when nothing ran, ErrNotFound when there is no such workload.
// When it returns nil the workload's port is free. A start that began before it, and
// has no owner yet, ends with ErrStoppedEarly.
//
// progress, which may be nil, is called when that takes longer than a second, and when
// the gateway had to be killed. The end of ctx ends the waiting with ErrInterrupted and
// not the workload: an owner that received the stop ends by itself, and is not killed.
func (m *Manager) Stop(ctx context.Context, name string, progress func(Event)) error {
	m.store.noteStop(name)
	return m.stopper.stop(ctx, name, progress)
}

// Remove stops a workload and deletes it. ErrNotFound when there is none. When
// ctx ends while it stops, it is not deleted. progress is as for Stop.
func (m *Manager) Remove(ctx context.Context, name string, progress func(Event)) error {
	if err := m.Stop(ctx, name, progress); err != nil && !errors.Is(err, ErrNotRunning) {
		return unfinished(err, "it is not removed")
	}
	if err := m.forget(name); err != nil {
		return err
	}
	return m.store.Delete(name)
}

// restoreSpec stores the Spec that a running owner has, when it is lost from disk.
func (m *Manager) restoreSpec(ctx context.Context, name string) error {
	owner, err := m.store.Owner(name)
	if err != nil {
		return err
	}
	if owner != nil {
		if _, err := m.store.Get(name); errors.Is(err, ErrNotFound) {
			if spec, err := owner.Spec(ctx); err == nil {
				return m.store.Put(spec)
			}
		}
	}
	return m.hasSpec(name, nil)
}

// Status is what is true of one workload now. ErrNotFound when there is none.
func (m *Manager) Status(ctx context.Context, name string) (*workload.Status, error) {
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner != nil {
		if st, err := owner.Status(ctx); err == nil {
			return st, nil
		} else if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// The owner may have ended between the two requests.
		if owner, err = m.store.Owner(name); err != nil {
			return nil, err
		}
	}
	spec, specErr := m.store.Get(name)
	if specErr != nil && owner == nil && !m.store.has(name) {
		return nil, specErr
	}
	st := &workload.Status{Name: name, State: workload.Failed, Reason: "its configuration is lost or damaged; remove it with `thv rm " + name + "`"}
	if spec != nil {
		st = spec.Status()
	}
	st.Created = m.store.Created(name)
	if owner != nil {
		st.State, st.PID = workload.Unresponsive, cmp.Or(owner.PID, m.store.holder(name))
		st.Reason = "its gateway holds the workload but does not answer; `thv stop " + name + "` ends it"
		return st, nil
	}
	if spec == nil {
		return st, nil
	}
	switch last := m.store.Last(name); last.State {
	case "":
		st.State = workload.Stopped
	case workload.Running, workload.Starting:
		st.State, st.Reason = workload.Failed, "its gateway exited without reporting an error (it was killed, or the machine went down); start it with `thv start "+name+"`"
	default:
		st.State, st.Reason = last.State, last.Reason
	}
	return st, nil
}

// List is the status of every workload now, sorted by name.
func (m *Manager) List(ctx context.Context) ([]*workload.Status, error) {
	names, err := m.store.Names()
	if err != nil {
		return nil, err
	}
	owned, err := m.store.owned()
	if err != nil {
		return nil, err
	}
	names = append(names, owned...)
	slices.Sort(names)
	names = slices.Compact(names)
	all := make([]*workload.Status, 0, len(names))
	for _, name := range names {
		st, err := m.Status(ctx, name)
		if errors.Is(err, ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}
