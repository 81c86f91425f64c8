package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
	"github.com/toolhaven/toolhaven/test/local"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// The test program run as `PROGRAM owner NAME` is an owner without a gateway:
// it holds the lock, listens on the port and answers on the control socket.
// The tests here are about ownership, and what a Manager makes of it.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "owner" {
		os.Exit(testOwner(os.Args[2]))
	}
	os.Exit(m.Run())
}

func testOwner(name string) int {
	send := func(n Notice) { json.NewEncoder(os.Stdout).Encode(n) }
	switch os.Getenv("TEST_OWNER") {
	case "silent":
		return 1
	case "fails":
		send(Notice{Failed: "the server exploded"})
		return 1
	case "stopped":
		send(Notice{Stopped: true})
		return 0
	case "slow":
		os.WriteFile(os.Getenv("TEST_MARK")+".begun", nil, 0o600)
		io.Copy(io.Discard, os.Stdin) // until the starter goes
		os.WriteFile(os.Getenv("TEST_MARK"), nil, 0o600)
		return 1
	}
	store := OpenStore(os.Getenv("TEST_STATE"), os.Getenv("TEST_RUNTIME"))
	hold, err := store.Own(context.Background(), name)
	if err != nil {
		send(Notice{Failed: err.Error()})
		return 1
	}
	hold.every = 50 * time.Millisecond
	defer hold.Release()
	spec, err := store.Get(name)
	if err != nil {
		return 1
	}
	port, err := local.FreePort() // none that the system gives to another when it is free
	if err != nil {
		return 1
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 1
	}
	defer l.Close()
	store.SetLast(name, workload.Running, "")
	stop := make(chan struct{}, 1)
	status := func() *workload.Status {
		st := spec.Status()
		st.State = workload.Running
		st.Server = l.Addr().String()
		return st
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		server := &http.Server{Handler: Control{Nonce: hold.Nonce, Spec: spec, Status: status, Stop: func() { stop <- struct{}{} }}.Handler()}
		if err := hold.Serve(ctx, server, slog.New(slog.DiscardHandler)); err != nil {
			stop <- struct{}{}
		}
	}()
	defer func() { end(); <-served }()
	send(Notice{Progress: &Event{Stage: "server", Message: "waiting"}})
	send(Notice{Ready: true})
	<-stop
	if os.Getenv("TEST_OWNER") == "lingers" { // calls are still running
		for !exists(os.Getenv("TEST_MARK")) {
			time.Sleep(5 * time.Millisecond)
		}
	}
	store.SetLast(name, workload.Stopped, "")
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func testManager(t *testing.T) (*Manager, *Store) {
	t.Helper()
	s := testStore(t)
	t.Setenv("TEST_STATE", s.state)
	t.Setenv("TEST_RUNTIME", s.runtime)
	t.Setenv("TEST_OWNER", "")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := New(Config{
		Store: s, Executable: exe,
		Engine: func(context.Context) (container.Engine, error) { return nil, container.ErrUnavailable },
	})
	t.Cleanup(func() {
		names, _ := s.owned()
		for _, name := range names {
			if o, _ := s.Owner(name); o != nil {
				s.kill(o)
			}
		}
	})
	return m, s
}

// run does what the command does: create, start, and remove when that fails.
func run(ctx context.Context, m *Manager, name string) (*workload.Status, error) {
	if err := m.Create(ctx, remoteSpec(name)); err != nil {
		return nil, err
	}
	st, err := m.Start(ctx, name, nil)
	if err != nil {
		return nil, errors.Join(err, m.Remove(context.WithoutCancel(ctx), name, nil))
	}
	return st, nil
}

func mustRun(t *testing.T, m *Manager, name string) *workload.Status {
	t.Helper()
	st, err := run(t.Context(), m, name)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != workload.Running || st.PID == 0 {
		t.Fatalf("after run: %+v", st)
	}
	return st
}

func portIsFree(t *testing.T, address string) bool {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func TestLifecycle(t *testing.T) {
	m, _ := testManager(t)
	st := mustRun(t, m, "a")
	if _, err := run(t.Context(), m, "a"); !errors.Is(err, ErrExists) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := m.Start(t.Context(), "a", nil); !errors.Is(err, ErrAlreadyRunning) {
		t.Errorf("start of a running workload: %v", err)
	}
	if err := m.Stop(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if !portIsFree(t, st.Server) {
		t.Error("stop returned while the port was held")
	}
	if err := m.Stop(t.Context(), "a", nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a second stop: %v", err)
	}
	if st, err := m.Status(t.Context(), "a"); err != nil || st.State != workload.Stopped {
		t.Errorf("after stop: %+v, %v", st, err)
	}
	again, err := m.Restart(t.Context(), "a", nil)
	if err != nil || again.URL != st.URL {
		t.Errorf("restart: %+v, %v; want URL %s", again, err, st.URL)
	}
	if err := m.Remove(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), "a", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a second rm: %v", err)
	}
	if all, err := m.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after rm: %v, %v", all, err)
	}
}

func TestAKilledGatewayIsReportedAndCanBeStartedAgain(t *testing.T) {
	m, _ := testManager(t)
	st := mustRun(t, m, "a")
	kill(t, st.PID)
	waitState(t, m, "a", workload.Failed)
	if err := m.Stop(t.Context(), "a", nil); err != nil {
		t.Errorf("stop after a crash: %v", err)
	}
	if _, err := m.Start(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

func waitState(t *testing.T, m *Manager, name string, want workload.State) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		st, err := m.Status(t.Context(), name)
		if err == nil && st.State == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("state of %s is %+v (%v), want %s", name, st, err, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestALostSpecHidesNoWorkload(t *testing.T) {
	for name, lose := range map[string]func(s *Store) error{
		"the Spec":      func(s *Store) error { return os.Remove(s.specPath("a")) },
		"the directory": func(s *Store) error { return os.RemoveAll(s.Dir("a")) },
		"owner's note":  func(s *Store) error { return os.Remove(s.infoPath("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			m, s := testManager(t)
			st := mustRun(t, m, "a")
			if err := lose(s); err != nil {
				t.Fatal(err)
			}
			all, err := m.List(t.Context())
			if err != nil || len(all) != 1 || all[0].State != workload.Running {
				t.Fatalf("list: %v, %v", all, err)
			}
			if name != "the directory" {
				if _, err := m.Restart(t.Context(), "a", nil); err != nil {
					t.Fatalf("restart: %v", err)
				}
			}
			if err := m.Remove(t.Context(), "a", nil); err != nil {
				t.Fatalf("rm: %v", err)
			}
			if !portIsFree(t, st.Server) {
				t.Error("rm left the port held")
			}
		})
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	m, s := testManager(t)
	for mode, want := range map[string]string{"fails": "the server exploded", "silent": "exited without reporting an error"} {
		t.Setenv("TEST_OWNER", mode)
		_, err := run(t.Context(), m, "a")
		if err == nil || !contains(err.Error(), want) {
			t.Errorf("%s: got %v", mode, err)
		}
		if names, _ := s.Names(); len(names) != 0 {
			t.Errorf("%s: left %v", mode, names)
		}
	}
}

func TestAStartThatWasStopped(t *testing.T) {
	m, s := testManager(t)
	t.Setenv("TEST_OWNER", "stopped")
	if err := s.Create(remoteSpec("a")); err != nil {
		t.Fatal(err)
	}
	_, err := m.Start(t.Context(), "a", nil)
	if !errors.Is(err, ErrStoppedEarly) || err.Error() != `workload "a" was stopped while it was starting` {
		t.Errorf("got %v", err)
	}
}

func TestAnInterruptedStartEndsTheOwner(t *testing.T) {
	m, s := testManager(t)
	mark := filepath.Join(t.TempDir(), "mark")
	t.Setenv("TEST_OWNER", "slow")
	t.Setenv("TEST_MARK", mark)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for !exists(mark+".begun") && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := run(ctx, m, "a"); err == nil {
		t.Fatal("an interrupted run succeeded")
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the owner received no stop")
	}
	if names, _ := s.Names(); len(names) != 0 {
		t.Errorf("left %v", names)
	}
}

func TestLogsOfATail(t *testing.T) {
	m, s := testManager(t)
	if err := s.Create(remoteSpec("a")); err != nil {
		t.Fatal(err)
	}
	log := "one\ntwo\nthree\n"
	if err := os.WriteFile(s.ServerLog("a"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for tail, want := range map[int]string{0: log, 1: "three\n", 2: "two\nthree\n", 9: log} {
		var out bytes.Buffer
		if err := m.Logs(t.Context(), "a", LogOptions{Tail: tail}, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("tail %d: got %q", tail, out.String())
		}
	}
	if err := m.Logs(t.Context(), "b", LogOptions{}, io.Discard); !errors.Is(err, ErrNotFound) {
		t.Errorf("logs of a workload that does not exist: %v", err)
	}
}
