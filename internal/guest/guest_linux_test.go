package guest

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// guestProgram is the built thv-guest of all tests.
var guestProgram string

// parallel is how many tests run at a time, unless -parallel is given. They wait
// for graces of seconds and compute little, so more run than there are processors.
const parallel = "16"

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Other users must be able to run it, see the test with a user of its own.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	guestProgram = filepath.Join(dir, "thv-guest")
	build := exec.Command("go", "build", "-o", guestProgram, "github.com/toolhaven/toolhaven/cmd/thv-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the guest: %v\n%s", err, out)
		return 1
	}
	if err := flag.Set("test.parallel", parallel); err != nil { // before it is parsed: the command line wins
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// running is a running guest.
type running struct {
	*Line
	cmd    *exec.Cmd
	stdin  *os.File
	stderr *lockedBuffer
	exited chan error
	detour string // why it did not use the shortcut
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func startGuest(t *testing.T, change ...func(*exec.Cmd)) *running {
	t.Helper()
	if strings.HasPrefix(t.Name(), "TestOverTheShortcut/") {
		return startGuestOver(t, openShortcut(t), change...)
	}
	return startGuestOver(t, nil, change...)
}

// startGuestOver starts a guest, with a shortcut as its argument unless that is nil.
func startGuestOver(t *testing.T, shortcut *Shortcut, change ...func(*exec.Cmd)) *running {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := &running{stdin: in, stderr: &lockedBuffer{}, exited: make(chan error, 1)}
	g.cmd = exec.Command(guestProgram)
	g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = theirIn, theirOut, g.stderr
	g.cmd.WaitDelay = patience / 2
	if shortcut != nil {
		g.cmd.Args = append(g.cmd.Args, filepath.Join(shortcut.Dir(), socketName))
	}
	for _, f := range change {
		f(g.cmd)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	go func() { g.exited <- g.cmd.Wait() }()
	if shortcut == nil {
		g.Line, err = Connect(in, out, out.Close)
	} else {
		g.Line, g.detour, err = ConnectShortcut(t.Context(), in, out, out.Close, shortcut)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		g.mustExit(t, patience)
		if left := g.processes(t); len(left) > 0 {
			t.Errorf("the guest has exited and left processes: %v", left)
		}
	})
	return g
}

// mustExit waits until the guest has exited.
func (g *running) mustExit(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case err := <-g.exited:
		if err != nil {
			t.Errorf("the guest ended with %v: %s", err, g.stderr)
		}
		g.exited <- err
	case <-time.After(within):
		g.cmd.Process.Kill()
		t.Errorf("the guest has not ended within %s", within)
	}
}

// processes lists the processes that the guest has started, directly or not.
func (g *running) processes(t *testing.T) []int {
	t.Helper()
	mark := []byte(fmt.Sprintf("THV_PROCESS=%d-", g.cmd.Process.Pid))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(env, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombies counts the guest's children that have ended and were not reaped.
func (g *running) zombies(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("ps", "-o", "stat=", "--ppid", strconv.Itoa(g.cmd.Process.Pid)).Output()
	if err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	return strings.Count(string(out), "Z")
}

// patience bounds every wait of a test for something that must happen.
const patience = time.Minute

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (g *running) spawn(t *testing.T, argv ...string) Process {
	t.Helper()
	p, err := g.Spawn(t.Context(), argv)
	if err != nil {
		t.Fatalf("spawn %q: %v", argv, err)
	}
	return p
}

// output runs argv to its end.
func (g *running) output(t *testing.T, argv ...string) (string, error) {
	t.Helper()
	p := g.spawn(t, argv...)
	p.Stdin().Close()
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatalf("read the output of %q: %v", argv, err)
	}
	return strings.TrimSpace(string(out)), p.Wait()
}

func readWord(t *testing.T, p Process) string {
	t.Helper()
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatalf("read a line: %v", err)
	}
	return strings.TrimSpace(line)
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("not a process id: %q", pid)
	}
	return syscall.Kill(n, 0) == nil
}

// within fails the test when f takes longer.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s took longer than %s", what, d)
	}
}

func short(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
