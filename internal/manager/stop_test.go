package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// lingering runs workload "a", whose gateway ends at a stop only when let.
func lingering(t *testing.T) (m *Manager, s *Store, pid int, let func()) {
	t.Helper()
	m, s = testManager(t)
	mark := filepath.Join(t.TempDir(), "mark")
	t.Setenv("TEST_OWNER", "lingers")
	t.Setenv("TEST_MARK", mark)
	m.stopper.pace.quiet = 0
	pid = mustRun(t, m, "a").PID
	return m, s, pid, func() {
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnInterruptLeavesTheGracefulStopGoing(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctx context.Context, m *Manager, progress func(Event)) error
		want string
	}{
		"stop": {
			func(ctx context.Context, m *Manager, p func(Event)) error { return m.Stop(ctx, "a", p) },
			`interrupted; workload "a" is stopping, and continues to stop`,
		},
		"rm": {
			func(ctx context.Context, m *Manager, p func(Event)) error { return m.Remove(ctx, "a", p) },
			`interrupted; workload "a" is stopping, and continues to stop, and it is not removed`,
		},
		"restart": {
			func(ctx context.Context, m *Manager, p func(Event)) error {
				_, err := m.Restart(ctx, "a", p)
				return err
			},
			`interrupted; workload "a" is stopping, and continues to stop, and it is not started again`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, s, pid, let := lingering(t)
			ctx, interrupt := context.WithCancel(t.Context())
			err := c.do(ctx, m, func(e Event) {
				if !contains(e.Message, "waiting for a to stop") {
					t.Errorf("reported %+v", e)
				}
				interrupt()
			})
			if err == nil || err.Error() != c.want || !errors.Is(err, ErrInterrupted) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if o, err := s.Owner("a"); err != nil || o == nil || o.PID != pid {
				t.Fatalf("the gateway does not live on: %+v, %v", o, err)
			}
			let()
			waitState(t, m, "a", workload.Stopped)
			if last := s.Last("a"); last.State != workload.Stopped || last.Reason != "" {
				t.Errorf("noted as %+v", last)
			}
		})
	}
}

func TestAGatewayThatDoesNotEndIsKilledAndThatIsReported(t *testing.T) {
	m, s, _, _ := lingering(t)
	m.stopper.pace.stop = 50 * time.Millisecond
	m.stopper.pace.quiet = time.Hour
	var reported []Event
	if err := m.Stop(t.Context(), "a", func(e Event) { reported = append(reported, e) }); err != nil {
		t.Fatal(err)
	}
	want := "its gateway did not end within 50ms and was killed"
	if len(reported) != 1 || reported[0].Stage != NoteStage || !contains(reported[0].Message, want) {
		t.Errorf("reported %+v", reported)
	}
	if last := s.Last("a"); last.State != workload.Stopped || last.Reason != want {
		t.Errorf("noted as %+v", last)
	}
}

// The engine here reports whether it was called with a context that lives.
func TestTheCleanUpOfContainersIsNotInterrupted(t *testing.T) {
	m, s := testManager(t)
	spec := remoteSpec("a")
	spec.Remote, spec.Image = nil, "example.com/a:1"
	if err := s.Put(spec); err != nil {
		t.Fatal(err)
	}
	called := errors.New("called")
	m.stopper.engine = func(ctx context.Context) (container.Engine, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, called
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := m.Stop(ctx, "a", nil); !errors.Is(err, called) {
		t.Errorf("got %v", err)
	}
}

// Who has only just taken hold has no socket yet: a stop does not take it for one that
// does not answer.
func TestAStopWaitsForAnOwnerThatHasOnlyJustTakenHold(t *testing.T) {
	m, s := testManager(t)
	if err := m.Create(t.Context(), remoteSpec("a")); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(s.lockPath("a"))
	if err := os.MkdirAll(filepath.Dir(s.lockPath("a")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- m.Stop(t.Context(), "a", nil) }()
	for deadline := time.Now().Add(time.Minute); !s.StopNoted("a"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the stop left no note")
		}
	}
	select { // the owner sees the note in the end, and lets go
	case err := <-stopped:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
}
