package owner

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// particular is an engine that refuses some containers.
type particular struct {
	container.Engine
	refuses func(container.Config) error
	asked   int
}

func (e *particular) Create(_ context.Context, cfg container.Config) (string, error) {
	e.asked++
	return "made", e.refuses(cfg)
}

func TestAnEngineThatCannotDoEverything(t *testing.T) {
	elsewhere := errors.New("bind source path does not exist")
	forbidden := errors.New("adding NET_ADMIN is forbidden")
	broken := errors.New("no such image")
	far := func(c container.Config) error {
		if len(c.Mounts) > 0 {
			return elsewhere
		}
		return nil
	}
	strict := func(c container.Config) error {
		if c.SetUp {
			return forbidden
		}
		return nil
	}
	for _, row := range []struct {
		what     string
		refuses  func(container.Config) error
		shortcut bool
		err      error
		asked    int
	}{
		{"one of this machine", func(container.Config) error { return nil }, true, nil, 1},
		{"one elsewhere", far, false, nil, 2},
		{"one that may not give capabilities", strict, false, nil, 3},
		{"one that can do neither", func(c container.Config) error { return errors.Join(far(c), strict(c)) }, false, nil, 3},
		{"one that has no such image", func(container.Config) error { return broken }, false, broken, 3},
	} {
		t.Run(row.what, func(t *testing.T) {
			// A path of the test's own would be too long for a socket.
			state, err := os.MkdirTemp("", "thv")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(state)
			store := manager.OpenStore(state, state)
			owned, err := store.Own(t.Context(), "w")
			if err != nil {
				t.Fatal(err)
			}
			defer owned.Release()
			engine := &particular{refuses: row.refuses}
			s := &instance{spec: &workload.Spec{Name: "w"}, store: store, engine: engine, log: slog.New(slog.DiscardHandler)}
			_, shortcut, err := s.create(t.Context(), container.Config{Network: "thv"}, container.Image{}, nil)
			if !errors.Is(err, row.err) || engine.asked != row.asked || (shortcut != nil) != row.shortcut {
				t.Errorf("asked %d times, shortcut %v, %v", engine.asked, shortcut, err)
			}
			if shortcut != nil {
				shortcut.Close()
			}
			if _, err := os.Stat(store.LineDir("w")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket's directory: %v", err)
			}
		})
	}
}
