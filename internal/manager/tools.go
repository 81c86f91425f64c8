package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/toolset"
)

// Tools requests all tools of a workload's server from its owner. ErrNotRunning when it has
// none.
func (m *Manager) Tools(ctx context.Context, name string) (*toolset.List, error) {
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return nil, fmt.Errorf("workload %q is %w", name, ErrNotRunning)
	}
	return owner.Tools(ctx)
}

// AcceptTools requests the owner to remember the tools of its server as they are now. It
// returns what had changed. ErrNotRunning when the workload has no owner.
func (m *Manager) AcceptTools(ctx context.Context, name string) ([]toolset.Change, error) {
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return nil, fmt.Errorf("workload %q is %w", name, ErrNotRunning)
	}
	return owner.AcceptTools(ctx)
}

// Connections requests from a workload's owner the connections of its isolated server that
// changed after a change. ErrNotRunning when the workload has no owner.
func (m *Manager) Connections(ctx context.Context, name string, after uint64) ([]egress.Record, error) {
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return nil, fmt.Errorf("workload %q is %w", name, ErrNotRunning)
	}
	return owner.Connections(ctx, after)
}

// PinTools sets Tools.Pin of a stored workload. It takes effect when the workload starts.
func (m *Manager) PinTools(name string, pin bool) error {
	spec, err := m.store.Get(name)
	if err != nil || spec.Tools.Pin == pin {
		return err
	}
	spec.Tools.Pin = pin
	return m.store.Put(spec)
}

// Pins returns what is remembered of the tools of a workload's server, nil for nothing.
func (s *Store) Pins(name string) (toolset.Pins, error) {
	b, err := os.ReadFile(s.pinsPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the pins of workload %q: %w", name, err)
	}
	var pins toolset.Pins
	if err := json.Unmarshal(b, &pins); err != nil || pins == nil {
		return nil, fmt.Errorf("the pins of workload %q are damaged (%s); `thv tools accept %s` replaces them", name, s.pinsPath(name), name)
	}
	return pins, nil
}

// SetPins replaces what is remembered of the tools. It does nothing when the workload's
// directory is gone.
func (s *Store) SetPins(name string, pins toolset.Pins) error {
	if _, err := os.Stat(s.Dir(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	b, err := json.MarshalIndent(pins, "", "  ")
	if err != nil {
		return err
	}
	if err := settings.WriteAtomic(s.pinsPath(name), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("store the pins of workload %q: %w", name, err)
	}
	return nil
}
