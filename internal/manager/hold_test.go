//go:build unix

package manager

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/toolhaven/toolhaven/test/local"
)

// damages are what can happen to the files of an owner that is alive.
func damages() map[string]func(t *testing.T, s *Store) {
	remove := func(path func(*Store) string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) {
			t.Helper()
			if err := os.RemoveAll(path(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(path func(*Store) string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) {
			t.Helper()
			remove(path)(t, s)
			if err := os.WriteFile(path(s), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	lock := func(s *Store) string { return s.lockPath("a") }
	note := func(s *Store) string { return s.infoPath("a") }
	socket := func(s *Store) string { return s.socketPath("a", "") }
	return map[string]func(*testing.T, *Store){
		"the lock is deleted":                remove(lock),
		"the lock is replaced":               write(lock),
		"the note is deleted":                remove(note),
		"the note is replaced":               write(note),
		"the socket is deleted":              remove(socket),
		"the socket is replaced":             write(socket),
		"the run directory is deleted":       remove((*Store).runDir),
		"the whole state is deleted":         remove(func(s *Store) string { return s.state }),
		"the run directory is moved and new": moved,
	}
}

func moved(t *testing.T, s *Store) {
	t.Helper()
	if err := os.Rename(s.runDir(), filepath.Join(t.TempDir(), "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.runDir(), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestAnOwnerRestoresItsHold(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			m, s := testManager(t)
			st := mustRun(t, m, "a")
			damage(t, s)
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				o, err := s.Owner("a")
				if err == nil && o != nil && o.PID == st.PID && o.Nonce != "" {
					if _, err := o.Status(t.Context()); err == nil {
						break
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("its owner is not found again: %+v, %v", o, err)
				}
			}
			if err := m.Remove(t.Context(), "a", nil); err != nil {
				t.Fatal(err)
			}
			if !portIsFree(t, st.Server) {
				t.Error("rm left the port held")
			}
		})
	}
}

func TestAHoldThatAnotherProcessHasTakenIsLost(t *testing.T) {
	s := testStore(t)
	hold, err := s.Own(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	if err := os.Remove(s.lockPath("a")); err != nil {
		t.Fatal(err)
	}
	other := flock.New(s.lockPath("a"))
	if ok, err := other.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer other.Unlock()
	if hold.Held() {
		t.Error("it takes a lock of another file for its own")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = hold.Serve(ctx, &http.Server{ReadHeaderTimeout: time.Minute}, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
}

// A gateway that is stopped by a signal cannot restore its files. Only the kernel's
// records show its lock then.
func TestAFrozenOwnerWithoutStateIsFoundAndEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not list the locks of other processes")
	}
	for what, lose := range map[string]func(s *Store) string{
		"lock":      func(s *Store) string { return s.lockPath("a") },
		"run files": (*Store).runDir,
		"state":     func(s *Store) string { return s.state },
	} {
		for verb, end := range map[string]func(*Manager) error{
			"stop": func(m *Manager) error { return m.Stop(t.Context(), "a", nil) },
			"rm":   func(m *Manager) error { return m.Remove(t.Context(), "a", nil) },
		} {
			t.Run(what+" and "+verb, func(t *testing.T) {
				m, s := testManager(t)
				st := mustRun(t, m, "a")
				local.Freeze(t, st.PID)
				if err := os.RemoveAll(lose(s)); err != nil {
					t.Fatal(err)
				}
				strays, err := m.Strays(t.Context(), nil)
				if err != nil || len(strays) != 1 || strays[0] != (Stray{Name: "a", PID: st.PID}) {
					t.Errorf("strays: %+v, %v", strays, err)
				}
				if err := end(m); err != nil {
					t.Fatal(err)
				}
				if !portIsFree(t, st.Server) {
					t.Error("it reports success while the port is held")
				}
			})
		}
	}
}

// What answers at the workload's URL under its name, and is not this store's, is not
// ended, and not hidden either.
func TestAStopReportsAGatewayThatStillAnswers(t *testing.T) {
	m, s := testManager(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	name := "a"
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			w.Write([]byte(`{"workload":"` + name + `"}`))
		}
	}))
	defer l.Close()
	spec := remoteSpec("a")
	spec.Proxy.Port = l.Addr().(*net.TCPAddr).Port
	if err := s.Create(spec); err != nil {
		t.Fatal(err)
	}
	for verb, end := range map[string]func() error{
		"stop": func() error { return m.Stop(t.Context(), "a", nil) },
		"rm":   func() error { return m.Remove(t.Context(), "a", nil) },
	} {
		if err := end(); err == nil || !contains(err.Error(), "still answers at "+spec.URL()) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	name = "other" // another program has the port
	if err := m.Remove(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
}

func TestOwn_DirectoriesTooLong(t *testing.T) {
	long := strings.Repeat("x", 120)
	s := OpenStore(filepath.Join(t.TempDir(), long), filepath.Join(t.TempDir(), long))
	_, err := s.Own(t.Context(), "a")
	if err == nil || !strings.Contains(err.Error(), "set XDG_RUNTIME_DIR") {
		t.Errorf("error %v; it must name the setting", err)
	}
}
