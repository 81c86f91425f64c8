package owner

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// A stop finds no owner where one is only just coming; the owner then gives way.
func TestAnOwnerGivesWayToAStopThatCameBeforeIt(t *testing.T) {
	for _, c := range []struct {
		end   func(*manager.Manager) error
		notes manager.Notice
	}{
		{func(m *manager.Manager) error { return m.Stop(t.Context(), "r", nil) }, manager.Notice{Stopped: true}},
		{func(m *manager.Manager) error { return m.Remove(t.Context(), "r", nil) }, manager.Notice{Failed: `workload "r" was removed while it was starting`}},
	} {
		store := manager.OpenStore(t.TempDir(), t.TempDir())
		m := manager.New(manager.Config{Store: store, Engine: func(context.Context) (container.Engine, error) { return nil, container.ErrUnavailable }})
		if err := store.Create(remoteSpec("http://127.0.0.1:1/mcp", freePort(t))); err != nil {
			t.Fatal(err)
		}
		if err := c.end(m); err != nil {
			t.Fatal(err)
		}
		var said []manager.Notice
		err := Main(t.Context(), Config{Name: "r", Store: store, Log: slog.New(slog.DiscardHandler), Notices: func(n manager.Notice) { said = append(said, n) }})
		if len(said) != 1 || said[0] != c.notes || (err == nil) != c.notes.Stopped {
			t.Errorf("it says %+v, and returns %v", said, err)
		}
		if st, err := m.Status(t.Context(), "r"); c.notes.Stopped && (err != nil || st.State != workload.Stopped) || !c.notes.Stopped && !errors.Is(err, manager.ErrNotFound) {
			t.Errorf("%+v, %v", st, err)
		}
	}
}
