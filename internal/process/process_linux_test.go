package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

func TestLocksAreFoundAfterTheirDirectoryWasDeleted(t *testing.T) {
	home := t.TempDir()
	real := filepath.Join(home, "state")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(real, "run")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	held, shared := flock.New(filepath.Join(dir, "a.lock")), flock.New(filepath.Join(dir, "b.lock"))
	if ok, err := held.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer held.Unlock()
	if ok, err := shared.TryRLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer shared.Unlock()
	want := Lock{PID: os.Getpid(), Path: filepath.Join(resolve(dir), "a.lock")}
	check := func(what, dir string) {
		t.Helper()
		if got := LocksIn(dir); !slices.Equal(got, []Lock{want}) {
			t.Errorf("%s: LocksIn is %+v, want %+v", what, got, want)
		}
	}
	check("in place", dir)
	check("through a link", filepath.Join(link, "state", "run"))
	if err := os.RemoveAll(real); err != nil {
		t.Fatal(err)
	}
	want.Deleted = true
	check("deleted", dir)
	check("deleted, through a link", filepath.Join(link, "state", "run"))
	if got := LocksOf(os.Getpid()); !slices.Contains(got, want) {
		t.Errorf("LocksOf is %+v", got)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got := LocksIn(dir); len(got) != 0 {
		t.Errorf("after the release: %+v", got)
	}
}

func TestAListenerIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if pid, name := Listener(port); pid != os.Getpid() || name == "" {
		t.Errorf("Listener is %d (%q)", pid, name)
	}
	l.Close()
	if pid, _ := Listener(port); pid != 0 {
		t.Errorf("after the end: %d", pid)
	}
}

func TestAProcessIsFrozenAndHasExited(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	await := func(what string, is func(int) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it is never %s", what)
			}
		}
	}
	if Frozen(pid) || Exited(pid) {
		t.Error("a process that runs is frozen or has exited")
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await("frozen", Frozen)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await("a zombie that has exited", Exited)
	_ = cmd.Wait() // it was killed
	await("gone", Exited)
}

func BenchmarkLocksIn(b *testing.B) {
	for b.Loop() {
		LocksIn("/nowhere/run")
	}
}
