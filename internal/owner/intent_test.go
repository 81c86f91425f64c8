package owner

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// A stop finds no owner where one is only just coming; the owner then gives way.
func TestAnOwnerGivesWayToAStopThatCameBeforeIt(t *testing.T) {
	for _, c := range []struct {
		end   func(*workload.Manager) error
		notes workload.Notice
	}{
		{func(m *workload.Manager) error { return m.Stop(t.Context(), "r", nil) }, workload.Notice{Stopped: true}},
		{func(m *workload.Manager) error { return m.Remove(t.Context(), "r", nil) }, workload.Notice{Failed: `workload "r" was removed while it was starting`}},
	} {
		store := workload.OpenStore(t.TempDir(), t.TempDir())
		m := workload.NewManager(workload.ManagerConfig{Store: store, Engine: func(context.Context) (container.Engine, error) { return nil, container.ErrUnavailable }})
		if err := store.Create(remoteSpec("http://127.0.0.1:1/mcp", freePort(t))); err != nil {
			t.Fatal(err)
		}
		if err := c.end(m); err != nil {
			t.Fatal(err)
		}
		var said []workload.Notice
		err := Main(t.Context(), Config{Name: "r", Store: store, Log: slog.New(slog.DiscardHandler), Notices: func(n workload.Notice) { said = append(said, n) }})
		if len(said) != 1 || said[0] != c.notes || (err == nil) != c.notes.Stopped {
			t.Errorf("it says %+v, and returns %v", said, err)
		}
		if st, err := m.Status(t.Context(), "r"); c.notes.Stopped && (err != nil || st.State != workload.Stopped) || !c.notes.Stopped && !errors.Is(err, workload.ErrNotFound) {
			t.Errorf("%+v, %v", st, err)
		}
	}
}
