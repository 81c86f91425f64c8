package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The tests of the stdio backend run real server processes below a real guest,
// as in a container but without one.

// programs are built once for all tests, in programDir.
var programs = struct {
	sync.Mutex
	built map[string]string
}{built: map[string]string{}}

// program builds a main package.
func program(t testing.TB, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if file, ok := programs.built[pkg]; ok {
		return file
	}
	file := filepath.Join(programDir, filepath.Base(filepath.Dir(pkg))+"-"+filepath.Base(pkg))
	build := exec.Command("go", "build", "-o", file, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	programs.built[pkg] = file
	return file
}

// site is a guest at work.
type site struct {
	bridge *bridge // of modernSite
	line   *guest.Line
	cmd    *exec.Cmd
}

func newSite(t testing.TB) *site {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{cmd: exec.Command(program(t, "github.com/toolhaven/toolhaven/cmd/thv-guest"))}
	s.cmd.Stdin, s.cmd.Stdout = theirIn, theirOut
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	if s.line, err = guest.Connect(in, out, out.Close); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.line.Close()
		s.cmd.Wait()
		if left := s.processes(t); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
	})
	return s
}

// processes lists the server processes that exist.
func (s *site) processes(t testing.TB) (pids []int) {
	t.Helper()
	mark := []byte(fmt.Sprintf("THV_PROCESS=%d-", s.cmd.Process.Pid))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
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

func (s *site) eventually(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(backendtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		got := s.processes(t)
		if len(got) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v there are %d processes, want %d", backendtest.Patience, len(got), want)
		}
	}
}

// role is the command line of the test binary in a role.
func role(t *testing.T, name string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A program built with -race takes a second to exit otherwise.
	return []string{"env", "GORACE=atexit_sleep_ms=0", serverRole + "=" + name, self}
}

// backend runs argv as a stdio server until the test ends.
func (s *site) backend(t *testing.T, cfg stdio.Config, argv ...string) exchange.Backend {
	t.Helper()
	cfg.Spawn = func(ctx context.Context) (guest.Process, error) { return s.line.Spawn(ctx, argv) }
	b := NewStdio(cfg)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		// One whose start was called off meanwhile is ended by the guest, by itself.
		s.eventually(t, 0)
	})
	return b
}

// crudeBackend is a backend of the crude server.
func crudeBackend(t *testing.T, cfg stdio.Config) (*site, exchange.Backend) {
	t.Helper()
	s := newSite(t)
	return s, s.backend(t, cfg, role(t, "crude")...)
}

// plain is a client that cannot be asked.
func plain() *exchange.Client {
	return &exchange.Client{Version: mcp.V20251125, Capabilities: json.RawMessage(`{}`), Info: json.RawMessage(`{"name":"plain","version":"1"}`)}
}

func openAs(t *testing.T, b exchange.Backend, c *exchange.Client, session exchange.Peer) exchange.Conn {
	t.Helper()
	conn, err := b.Open(backendtest.TestContext(t), c, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func tool(name, arg string) *mcp.Message {
	return backendtest.Call(mcp.IntID(1), name, fmt.Sprintf(`{"is":%q}`, arg))
}

// ask calls a tool of the crude server.
func ask(t *testing.T, c exchange.Conn, name, arg string) string {
	t.Helper()
	return backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool(name, arg), backendtest.NewPeer())))
}

// outcome is what a call that goes on meanwhile comes to.
func begin(ctx context.Context, c exchange.Conn, x *exchange.Exchange) <-chan backendtest.Outcome {
	done := make(chan backendtest.Outcome, 1)
	go func() {
		m, err := c.Do(ctx, x)
		done <- backendtest.Outcome{M: m, Err: err}
	}()
	return done
}

// hold begins a call that the crude server keeps until the tool "release" is called with
// name, and returns when it has it, with its id toward the server.
func hold(ctx context.Context, t *testing.T, c exchange.Conn, name string, p exchange.Peer) (done <-chan backendtest.Outcome, id string) {
	t.Helper()
	m := backendtest.Request(mcp.IntID(5), mcp.MethodToolsCall, fmt.Sprintf(`{"name":"hold","arguments":{"is":%q},"_meta":{"progressToken":"same"}}`, name))
	done = begin(ctx, c, backendtest.ExchangeOf(m, p))
	backendtest.Eventually(t, "the server has the call "+name, func() bool {
		id = ask(t, c, "holds", name)
		return id != "nothing"
	})
	return done, id
}

// quiet is a peer that listens to nothing and leaves questions unanswered.
type quiet struct{ exchange.PeerDefaults }

func (quiet) Notify(*mcp.Message) {}

func (quiet) Ask(ctx context.Context, _ *mcp.Message) (*mcp.Message, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func mustEnd(t *testing.T, c exchange.Conn) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(backendtest.Patience):
		t.Fatal("the session does not end")
	}
}

func mustLive(t *testing.T, c exchange.Conn) {
	t.Helper()
	select {
	case <-c.Done():
		t.Fatal("the session has ended")
	default:
	}
}
