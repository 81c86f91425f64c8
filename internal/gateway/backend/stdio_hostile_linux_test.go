package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Whatever ends a process, everything in flight on it ends with the reason, and
// the next session gets another one.
func TestStdio_ServerFails(t *testing.T) {
	t.Parallel()
	tests := []struct{ tool, want string }{
		{"die", "the server's process ended: exit status 3"},
		{"crash", "the server's process ended: killed by signal 9"},
		{"close output", "closed its output"},
		{"endless line", "a line of more than 16 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			t.Parallel()
			s, b := crudeBackend(t, stdio.Config{})
			a, c := openAs(t, b, plain(), backendtest.NewPeer()), openAs(t, b, plain(), backendtest.NewPeer())
			bystander, _ := hold(backendtest.TestContext(t), t, c, "x", backendtest.NewPeer())
			culprit := begin(backendtest.TestContext(t), a, backendtest.ExchangeOf(tool(tt.tool, ""), backendtest.NewPeer()))
			for _, done := range []<-chan backendtest.Outcome{bystander, culprit} {
				if _, err := backendtest.Wait(t, done); backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("ended with %v, want %s", err, tt.want)
				}
			}
			mustEnd(t, a)
			mustEnd(t, c)
			if got := ask(t, a, "echo", ""); !strings.Contains(got, tt.want) {
				t.Errorf("a call afterwards: %s", got)
			}
			if err := a.Notify(backendtest.TestContext(t), wire.InitializedNotification()); err == nil {
				t.Error("a notification in an ended session succeeded")
			}
			if got := ask(t, openAs(t, b, plain(), backendtest.NewPeer()), "echo", "alive"); got != "alive" {
				t.Error(got)
			}
			s.eventually(t, 1)
		})
	}
}

func TestStdio_Misbehavior(t *testing.T) {
	t.Parallel()
	tests := []struct{ tool, want string }{
		{"garbage", "sober"},
		{"wrong ids", "right"},
		{"twice", "first"},
		{"split", "joined"},
		{"indented", `joined } ] " {`},
		{"cut off", "error: the server's answer to tools/call cannot be understood: it is not complete"},
		{"a line break in a text", "error: the server's answer to tools/call cannot be understood"},
		{"more members", "read"},
		{"error with more members", "rpc error -32000: no luck"},
		{"unreadable", "error: the server's answer to tools/call cannot be understood: a message must have a method, or a result, or an error, and only one of them"},
		{"without id", "rpc error -32700: I could not read that"},
		{"another spelling", "right"},
		{"the number as text", "right"},
		{"not a number", "error: the server's answer to tools/call cannot be understood: the message is not valid JSON"},
		{"not a number, and the id behind it", "error: an answer of the server cannot be understood: the message is not valid JSON"},
		{"not UTF-8", "error: the server's answer to tools/call cannot be understood: the message is not valid JSON: it is not UTF-8"},
		{"a question that cannot be read", "right"},
	}
	for _, tt := range tests {
		for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
			t.Run(tt.tool+" "+name, func(t *testing.T) {
				t.Parallel()
				_, b := crudeBackend(t, stdio.Config{})
				conn := openAs(t, b, client, quiet{})
				got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool(tt.tool, ""), quiet{})))
				if got != tt.want && !(strings.HasPrefix(tt.want, "error: ") && strings.HasPrefix(got, tt.want)) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if got := ask(t, conn, "echo", "well"); got != "well" {
					t.Errorf("afterwards: %s", got)
				}
			})
		}
	}
}

// A server that does not know notifications/initialized may say so, and mean nobody's
// request, also when its words come after a request.
func TestStdio_ResponsesToNotifications(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, b := crudeBackend(t, stdio.Config{})
			conn := openAs(t, b, client, quiet{})
			if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("answers to notifications", ""), quiet{}))); got != "right" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// An error without an id is assigned to none of several pending requests: the others get
// their answers, and the one that the server could not read ends when it is cancelled.
func TestStdio_ErrorWithoutIDBesideSeveralRequests(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, b := crudeBackend(t, stdio.Config{})
			conn, other := openAs(t, b, client, backendtest.NewPeer()), openAs(t, b, client, backendtest.NewPeer())
			first, _ := hold(backendtest.TestContext(t), t, conn, "a", backendtest.NewPeer())
			second, _ := hold(backendtest.TestContext(t), t, conn, "b", backendtest.NewPeer())
			ctx, cancel := context.WithCancel(backendtest.TestContext(t))
			defer cancel()
			unread := begin(ctx, conn, backendtest.ExchangeOf(tool("cannot be parsed", ""), backendtest.NewPeer()))
			backendtest.Eventually(t, "the server has received it beside the others", func() bool { return ask(t, conn, "unread", "") == "1" })
			for _, held := range []struct {
				name string
				done <-chan backendtest.Outcome
			}{{"a", first}, {"b", second}} {
				if got := ask(t, conn, "release", held.name); got != "released" {
					t.Fatal(got)
				}
				if got := backendtest.Text(backendtest.Wait(t, held.done)); got != held.name {
					t.Errorf("the held call %s: %s", held.name, got)
				}
			}
			cancel()
			if _, err := backendtest.Wait(t, unread); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if got := ask(t, other, "echo", "well"); got != "well" {
				t.Errorf("another session: %s", got)
			}
		})
	}
}

// Not parallel: it counts the goroutines of the test program.
func TestStdio_FloodOfRequests(t *testing.T) {
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
		t.Run(name, func(t *testing.T) {
			_, b := crudeBackend(t, stdio.Config{})
			conn := openAs(t, b, client, quiet{})
			before := runtime.NumGoroutine()
			done := begin(backendtest.TestContext(t), conn, backendtest.ExchangeOf(tool("flood", ""), quiet{}))
			most := 0
			for {
				select {
				case o := <-done:
					if got := backendtest.Text(o.M, o.Err); got != "after the flood" {
						t.Error(got)
					}
					if most > before+4*wire.MaxServerRequests {
						t.Errorf("%d goroutines, and %d before", most, before)
					}
					return
				case <-time.After(time.Millisecond):
					most = max(most, runtime.NumGoroutine())
				}
			}
		})
	}
}

func TestStdio_EndlessRequestsWithoutReading(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	if got := ask(t, conn, "ask forever", ""); !strings.Contains(got, "sends requests without reading the responses") {
		t.Error(got)
	}
}

// A server that does not read any more stalls its clients for as long as they
// care to wait, and can be ended.
func TestStdio_ServerStopsReading(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{})
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	if got := ask(t, conn, "stop reading", ""); got != "stopped" {
		t.Fatal(got)
	}
	big := strings.Repeat("x", 4<<20)
	ctx, cancel := context.WithTimeout(backendtest.TestContext(t), 200*time.Millisecond)
	defer cancel()
	var calls []<-chan backendtest.Outcome
	for range 5 {
		calls = append(calls, begin(ctx, conn, backendtest.ExchangeOf(tool("echo", big), backendtest.NewPeer())))
	}
	for _, c := range calls {
		if _, err := backendtest.Wait(t, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	}
	conn.Close()
	s.eventually(t, 0)
}

func TestStdio_ServerDoesNotStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		argv []string
		wait time.Duration
		want string
	}{
		{"not there", []string{"no-such-server"}, backendtest.Patience, `executable "no-such-server" not found in the image`},
		{"ends at once", role(t, "stillborn"), backendtest.Patience, "the server's process ended: exit status 78"},
		{"speaks something else", role(t, "babbling"), backendtest.Patience, "1000 lines in a row that are not JSON-RPC messages"},
		{"says nothing", role(t, "mute"), 2 * time.Second, "too slow"},
	}
	for _, tt := range tests {
		for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				b := s.backend(t, stdio.Config{}, tt.argv...)
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.wait, errors.New("too slow"))
				defer cancel()
				_, err := b.Open(ctx, client, backendtest.NewPeer())
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("open: %v, want %s", err, tt.want)
				}
				s.eventually(t, 0)
			})
		}
	}
}

func TestStdio_ContainerIsGone(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{})
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	held, _ := hold(backendtest.TestContext(t), t, conn, "x", backendtest.NewPeer())
	pids := s.processes(t)
	s.cmd.Process.Kill()
	for _, pid := range pids { // as the kernel does when PID 1 of a container is killed
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if _, err := backendtest.Wait(t, held); backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), guest.ErrLineLost.Error()) {
		t.Errorf("ended with %v", err)
	}
	mustEnd(t, conn)
	if _, err := b.Open(backendtest.TestContext(t), plain(), backendtest.NewPeer()); !strings.Contains(fmt.Sprint(err), guest.ErrLineLost.Error()) {
		t.Errorf("open: %v", err)
	}
	s.eventually(t, 0)
}

func TestStdio_ProcessesAreBounded(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{MaxProcesses: 2, QueueTimeout: 300 * time.Millisecond})
	first, second := openAs(t, b, backendtest.FullClient(), backendtest.NewPeer()), openAs(t, b, plain(), backendtest.NewPeer())
	for _, conn := range []exchange.Conn{first, second} { // a process is busy while a request is in flight
		hold(backendtest.TestContext(t), t, conn, "busy", backendtest.NewPeer())
	}
	_, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
	if backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), "all 2 server processes of this workload are busy, and none became free within 300ms") {
		t.Errorf("a third: %v", err)
	}
	// Who shares needs no place, and who must move needs one.
	third := openAs(t, b, plain(), backendtest.NewPeer())
	_, err = third.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "tasks/list", `{}`), backendtest.NewPeer()))
	if backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), "all 2 server processes") {
		t.Errorf("moving: %v", err)
	}
	if got := ask(t, third, "echo", "stays"); got != "stays" {
		t.Error(got)
	}
	if p := b.ServerInfo().Processes; p.Running != 2 || p.Max != 2 || !strings.Contains(p.Busy, "all 2 server processes are busy") {
		t.Errorf("the processes are reported as %+v", p)
	}
	ctx, cancel := context.WithCancelCause(backendtest.TestContext(t))
	cancel(errors.New("the client left"))
	if _, err = b.Open(ctx, backendtest.FullClient(), backendtest.NewPeer()); fmt.Sprint(err) != "the client left" {
		t.Errorf("a client that left: %v", err)
	}
	first.Close()
	openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
	mustLive(t, second)
	s.eventually(t, 2)
	if p := b.ServerInfo().Processes; p.Busy != "" {
		t.Errorf("with a free process: %+v", p)
	}
}

// A call that waits for its client's answer is ended when another client needs its process.
func TestStdio_EvictsWaitingCalls(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{MaxProcesses: 1, QueueTimeout: 20 * time.Second})
	first := openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
	hold(backendtest.TestContext(t), t, first, "busy", backendtest.NewPeer())
	b.SetEvictor(func() { _ = first.Close() })
	second := openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
	if got := ask(t, second, "echo", "x"); got != "x" {
		t.Error(got)
	}
	s.eventually(t, 1)
}

// While a process is ending, no second call is ended for the same caller.
func TestStdio_EvictsOneCallForEachCaller(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	released := make(chan struct{})
	const queueTimeout = 4 * backendtest.Patience // room is made every 120th of it
	b := NewStdio(stdio.Config{MaxProcesses: 2, QueueTimeout: queueTimeout, Spawn: func(ctx context.Context) (guest.Process, error) {
		p, err := s.line.Spawn(ctx, role(t, "crude"))
		return reluctant{p, released}, err
	}})
	defer func() { _ = b.Close() }()
	sessions := []exchange.Conn{openAs(t, b, backendtest.FullClient(), backendtest.NewPeer()), openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())}
	for _, conn := range sessions {
		hold(backendtest.TestContext(t), t, conn, "busy", backendtest.NewPeer())
	}
	var rooms atomic.Int64
	b.SetEvictor(func() {
		if n := int(rooms.Add(1)); n <= len(sessions) {
			go sessions[n-1].Close()
		}
	})
	time.AfterFunc(queueTimeout*3/120, func() { close(released) })
	mustLive(t, openAs(t, b, backendtest.FullClient(), backendtest.NewPeer()))
	if n := rooms.Load(); n != 1 {
		t.Errorf("room was made %d times for one", n)
	}
	mustLive(t, sessions[1])
}

// reluctant is a process that ends only when it may.
type reluctant struct {
	guest.Process
	may <-chan struct{}
}

func (r reluctant) Stop(ctx context.Context) error {
	<-r.may
	return r.Process.Stop(ctx)
}

// Idle sessions that are kept for stateless clients are reclaimed before a call is ended.
func TestStdio_KeptSessionsAreReclaimed(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{MaxProcesses: 2, QueueTimeout: 20 * time.Second})
	b.SetEvictor(func() { t.Error("a call was to be ended") })
	for _, capabilities := range []string{`{"sampling":{}}`, `{"elicitation":{}}`} {
		if _, err := b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"echo","arguments":{"text":"x"}`, capabilities, backendtest.NewPeer())); err != nil {
			t.Fatal(err)
		}
	}
	s.eventually(t, 2)
	mustLive(t, openAs(t, b, backendtest.FullClient(), backendtest.NewPeer()))
	mustLive(t, openAs(t, b, backendtest.FullClient(), backendtest.NewPeer()))
	s.eventually(t, 2)
}

func TestStdio_WaitsForASlot(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{MaxProcesses: 2})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			conn, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
			if err != nil {
				t.Error(err)
				return
			}
			if got := ask(t, conn, "echo", "x"); got != "x" {
				t.Error(got)
			}
			if n := len(s.processes(t)); n > 2 {
				t.Errorf("%d processes", n)
			}
			conn.Close()
		})
	}
	wg.Wait()
	s.eventually(t, 0)
}

func TestStdio_QueueIsBounded(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{MaxProcesses: 1, QueueTimeout: time.Minute})
	openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	var wg sync.WaitGroup
	const maxQueue = 256
	for range maxQueue {
		wg.Go(func() {
			if conn, err := b.Open(ctx, backendtest.FullClient(), backendtest.NewPeer()); err == nil {
				t.Error("opened")
				conn.Close()
			}
		})
	}
	for b.(*bridge).sessions.(*stdio.Pool).Waiting() < maxQueue {
		time.Sleep(time.Millisecond)
	}
	if _, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer()); !strings.Contains(fmt.Sprint(err), "wait for one already") {
		t.Errorf("one more: %v", err)
	}
	cancel()
	wg.Wait()
}

func TestStdio_CloseEndsEverything(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{MaxProcesses: 2, QueueTimeout: time.Minute})
	shared, own := openAs(t, b, plain(), backendtest.NewPeer()), openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
	var calls []<-chan backendtest.Outcome
	for _, conn := range []exchange.Conn{shared, own} {
		held, _ := hold(backendtest.TestContext(t), t, conn, "x", backendtest.NewPeer())
		calls = append(calls, held)
	}
	queued := make(chan error, 1)
	go func() {
		_, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
		queued <- err
	}()
	for b.(*bridge).sessions.(*stdio.Pool).Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := s.processes(t); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	for _, done := range calls {
		if got := backendtest.Text(backendtest.Wait(t, done)); got != "error: the workload is stopping" {
			t.Error(got)
		}
	}
	if err := <-queued; fmt.Sprint(err) != "the workload is stopping" {
		t.Errorf("one that waited: %v", err)
	}
	for _, client := range []*exchange.Client{plain(), backendtest.FullClient()} {
		if _, err := b.Open(backendtest.TestContext(t), client, backendtest.NewPeer()); fmt.Sprint(err) != "the workload is stopping" {
			t.Errorf("open afterwards: %v", err)
		}
	}
}

// Fifty sessions, two hundred calls each, all with the same ids; half of the
// sessions go away in the middle (user pain 4, CVE-2026-25536).
func TestStdio_ManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	const sessions, calls = 50, 200
	file := program(t, "github.com/modelcontextprotocol/go-sdk/examples/server/everything")
	s := newSite(t)
	b := s.backend(t, stdio.Config{MaxProcesses: 8, QueueTimeout: time.Minute}, file)
	warm := openAs(t, b, plain(), backendtest.NewPeer()) // as the owner of a workload has one
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for n := range sessions {
		wg.Go(func() {
			client := plain()
			if n%10 == 0 {
				client = backendtest.FullClient()
			}
			conn, err := b.Open(ctx, client, backendtest.NewPeer())
			if err != nil {
				t.Errorf("session %d: %v", n, err)
				return
			}
			abrupt := n%2 == 1 || n%20 == 0
			left := rand.IntN(calls)
			var inSession sync.WaitGroup
			for id := range calls {
				if abrupt && id == left {
					inSession.Go(func() { conn.Close() })
				}
				inSession.Go(func() {
					name := fmt.Sprintf("session %d call %d", n, id)
					m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(int64(id)), "greet", fmt.Sprintf(`{"name":%q}`, name)), backendtest.NewPeer()))
					switch {
					case err != nil && abrupt && backendtest.CodeOf(err) == mcp.CodeServerGone:
					case err == nil && m.ID != mcp.IntID(int64(id)):
						t.Errorf("%s: answered with id %s", name, m.ID)
					case backendtest.Text(m, err) != "Hi "+name:
						t.Errorf("%s: %s", name, backendtest.Text(m, err))
					}
				})
			}
			inSession.Wait()
			conn.Close()
		})
	}
	wg.Wait()
	s.eventually(t, 1)
	if got := backendtest.Text(warm.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "greet", `{"name":"me"}`), backendtest.NewPeer()))); got != "Hi me" {
		t.Error(got)
	}
}
