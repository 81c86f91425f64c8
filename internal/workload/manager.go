package workload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Labels that mark what Toolhaven made on an engine.
const (
	// LabelWorkload holds the workload's name.
	LabelWorkload = "dev.toolhaven.workload"
	// LabelStore tells stores on one engine apart; see [Store.ID].
	LabelStore = "dev.toolhaven.store"
	// LabelGroup holds the workload's group.
	LabelGroup = "dev.toolhaven.group"
)

// stopTimeout bounds a graceful end: the gateway drains for up to 10 s and the
// server gets 10 s; what still holds the workload then is killed.
const stopTimeout = 30 * time.Second

// ManagerConfig is what a Manager works with.
type ManagerConfig struct {
	Store *Store
	// Engine connects to the container engine. It is called only when a
	// command needs one.
	Engine func(ctx context.Context) (container.Engine, error)
	// Executable is the program started as `Executable owner NAME`.
	Executable string
	Log        *slog.Logger
	// Forget drops what else is kept for a workload that is removed (its
	// secrets). It may be nil.
	Forget func(name string) error
}

// Manager carries out the commands on workloads. It remembers nothing: every
// answer is made from locks, owners, and the engine at the time of asking.
type Manager struct {
	store  *Store
	engine func(ctx context.Context) (container.Engine, error)
	exe    string
	log    *slog.Logger
	forget func(name string) error
}

// NewManager makes a Manager.
func NewManager(cfg ManagerConfig) *Manager {
	m := &Manager{store: cfg.Store, engine: cfg.Engine, exe: cfg.Executable, log: cfg.Log, forget: cfg.Forget}
	if m.forget == nil {
		m.forget = func(string) error { return nil }
	}
	return m
}

// Event is a step on the way to a running workload, for a person to see.
type Event struct {
	Stage   string `json:"stage"` // "image", "container", "server"
	Message string `json:"message"`
	Current int64  `json:"current,omitempty"` // bytes
	Total   int64  `json:"total,omitempty"`   // bytes; 0 when unknown
}

// Create stores a workload without starting it.
func (m *Manager) Create(_ context.Context, spec *Spec) error {
	if err := Validate(spec); err != nil {
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

// Start starts a stored workload and returns when its server has answered.
// ErrAlreadyRunning when it has an owner.
func (m *Manager) Start(ctx context.Context, name string, progress func(Event)) (*Status, error) {
	if _, err := m.store.Get(name); err != nil {
		return nil, err
	}
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner != nil {
		return nil, fmt.Errorf("workload %q is %w", name, ErrAlreadyRunning)
	}
	return m.start(ctx, name, progress)
}

func (m *Manager) start(ctx context.Context, name string, progress func(Event)) (*Status, error) {
	if progress == nil {
		progress = func(Event) {}
	}
	if err := m.spawn(ctx, name, progress); err != nil {
		return nil, err
	}
	return m.Status(ctx, name)
}

// Restart stops a workload if it runs and starts it again. A Spec that was lost
// from disk while the workload ran is taken back from its owner.
func (m *Manager) Restart(ctx context.Context, name string, progress func(Event)) (*Status, error) {
	if err := m.restoreSpec(ctx, name); err != nil {
		return nil, err
	}
	if err := m.Stop(ctx, name); err != nil && !errors.Is(err, ErrNotRunning) {
		return nil, err
	}
	return m.start(ctx, name, progress)
}

func (m *Manager) restoreSpec(ctx context.Context, name string) error {
	_, err := m.store.Get(name)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	owner, ownerErr := m.store.Owner(name)
	if ownerErr != nil || owner == nil {
		return err
	}
	spec, specErr := owner.Spec(ctx)
	if specErr != nil {
		return err
	}
	return m.store.Put(spec)
}

// Stop ends a workload and everything of it on the engine; its Spec stays.
// ErrNotRunning when nothing ran, ErrNotFound when there is no such workload.
// When it returns nil the workload's port is free.
func (m *Manager) Stop(ctx context.Context, name string) error {
	owner, err := m.store.Owner(name)
	if err != nil {
		return err
	}
	spec, specErr := m.store.Get(name)
	if owner == nil {
		if specErr != nil && !m.exists(name) {
			return specErr
		}
		if err := m.sweep(ctx, name, spec); err != nil {
			return err
		}
		// A workload that failed is stopped from now on: that was asked for.
		if m.store.Last(name).State != Stopped {
			return m.store.SetLast(name, Stopped, "")
		}
		return fmt.Errorf("workload %q is %w", name, ErrNotRunning)
	}
	if specErr != nil {
		// Lost from disk; its owner still has it. Without it we look for a
		// container, which is never wrong.
		spec, _ = owner.Spec(ctx)
	}
	reason := ""
	if err := owner.Stop(ctx); err != nil || !m.released(ctx, name, owner, stopTimeout) {
		if err := m.store.kill(owner); err != nil {
			return err
		}
		if !m.released(ctx, name, owner, 5*time.Second) {
			return fmt.Errorf("workload %q: process %d still holds it after being killed", name, owner.PID)
		}
		reason = "its gateway did not answer and was killed"
		m.log.Warn("gateway killed", "workload", name, "pid", owner.PID)
	}
	if err := m.sweep(ctx, name, spec); err != nil {
		return err
	}
	return m.store.SetLast(name, Stopped, reason)
}

// released waits until owner no longer holds the workload.
func (m *Manager) released(ctx context.Context, name string, owner *Owner, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		// A holder without a note is between taking it away and unlocking.
		if now, err := m.store.Owner(name); err == nil && (now == nil || now.Nonce != "" && now.Nonce != owner.Nonce) {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// sweep removes what a dead owner left on the engine. A workload that never has
// a container needs no engine for that. spec may be nil when it is lost.
func (m *Manager) sweep(ctx context.Context, name string, spec *Spec) error {
	if spec != nil && spec.Remote != nil {
		return nil
	}
	engine, err := m.engine(ctx)
	if err != nil {
		return fmt.Errorf("look for containers of workload %q: %w", name, err)
	}
	return RemoveContainers(ctx, engine, m.store, name)
}

// RemoveContainers removes every container of a workload of this store. The
// caller knows that no owner uses them.
func RemoveContainers(ctx context.Context, engine container.Engine, store *Store, name string) error {
	found, err := Containers(ctx, engine, store, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range found {
		errs = append(errs, engine.Remove(ctx, c.ID))
	}
	return errors.Join(errs...)
}

// Containers are all containers of a workload of this store, ended ones too.
func Containers(ctx context.Context, engine container.Engine, store *Store, name string) ([]container.Container, error) {
	return engine.List(ctx, map[string]string{LabelWorkload: name, LabelStore: store.ID()})
}

// Remove stops a workload and deletes it. ErrNotFound when there is none.
func (m *Manager) Remove(ctx context.Context, name string) error {
	if owner, err := m.store.Owner(name); err != nil {
		return err
	} else if owner == nil && !m.exists(name) {
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if err := m.Stop(ctx, name); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	if err := m.forget(name); err != nil {
		return err
	}
	return m.store.Delete(name)
}

func (m *Manager) exists(name string) bool {
	names, err := m.store.Names()
	return err == nil && slices.Contains(names, name)
}

// Status tells what is true of one workload now. ErrNotFound when there is none.
func (m *Manager) Status(ctx context.Context, name string) (*Status, error) {
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
		// The owner may have ended between the two questions.
		if owner, err = m.store.Owner(name); err != nil {
			return nil, err
		}
	}
	spec, specErr := m.store.Get(name)
	if specErr != nil && owner == nil && !m.exists(name) {
		return nil, specErr
	}
	st := &Status{Name: name, State: Failed, Reason: "its configuration is lost or damaged; remove it with `thv rm " + name + "`"}
	if spec != nil {
		st = spec.Status()
	}
	st.Created = m.store.Created(name)
	if owner != nil {
		st.State, st.PID = Unresponsive, owner.PID
		st.Reason = "its gateway holds the workload but does not answer; `thv stop " + name + "` ends it"
		return st, nil
	}
	if spec == nil {
		return st, nil
	}
	switch last := m.store.Last(name); last.State {
	case "":
		st.State = Stopped
	case Running, Starting:
		st.State, st.Reason = Failed, "its gateway ended without a word (killed, or the machine went down); start it with `thv start "+name+"`"
	default:
		st.State, st.Reason = last.State, last.Reason
	}
	return st, nil
}

// Status is what a Spec alone says of its workload: everything but the state.
func (s *Spec) Status() *Status {
	return &Status{
		Name: s.Name, Group: s.Group, URL: s.URL(), Port: s.Proxy.Port,
		Transport: s.Transport, ProxyMode: s.Proxy.Mode, Source: s.Source.Ref,
		Image: s.Image, Remote: s.Remote != nil, Labels: s.Container.Labels,
	}
}

// List tells what is true of every workload now, sorted by name.
func (m *Manager) List(ctx context.Context) ([]*Status, error) {
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
	all := make([]*Status, 0, len(names))
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
