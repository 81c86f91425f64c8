//go:build integration

package scenario

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Fifty clients of one stdio server, half of them in each era, two hundred calls
// each, half of them cut off in the middle. There is one container throughout, no client
// receives another's messages, and afterwards there are as many processes as before and
// no zombies.
func TestStorm(t *testing.T) {
	const clients, calls = 50, 200
	p := goTestPlace(t)
	// A client that vanished leaves its session, which ends after the TTL.
	url := p.start(t, "go://../servers/probe", "--name", "storm", "--session-ttl", "15s")

	warm := newWire()
	if err := storm(t.Context(), url, warm, client{name: "warm", calls: 3}); err != nil {
		t.Fatal(err)
	}
	before := p.count(t, "storm")
	most := p.watchContainers(t)

	var wg sync.WaitGroup
	var answered atomic.Int64
	for i := range clients {
		c := client{name: fmt.Sprintf("client-%d", i), calls: calls, asks: i%5 == 0, answered: &answered}
		if i/2%2 == 0 {
			c.version = "2025-11-25"
		}
		if i%2 == 1 {
			c.cutAt = calls / 2
		}
		wg.Go(func() {
			if err := storm(t.Context(), url, newWire(), c); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	wg.Wait()
	// A client that is cut off has received the responses before that call.
	if want := int64(clients/2*calls + clients/2*(calls/2-1)); answered.Load() != want {
		t.Errorf("%d calls were answered; want %d", answered.Load(), want)
	}
	if n := most(); n != 1 {
		t.Errorf("there were up to %d containers; want one throughout", n)
	}

	var after population
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		after = p.count(t, "storm")
		if after.zombies == 0 && after.inside <= before.inside+2 && after.outside <= before.outside+2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s after the storm: %+v; before it: %+v", patience, after, before)
		}
	}
	t.Logf("before %+v, after %+v", before, after)
	if err := storm(t.Context(), url, newWire(), client{name: "afterwards", calls: 20, asks: true}); err != nil {
		t.Errorf("after the storm: %v", err)
	}
}

// client is one client of the storm.
type client struct {
	name    string
	version string // of the protocol; empty: the newest, which has no sessions
	calls   int
	asks    bool // lets the server send it a request in every tenth call
	cutAt   int  // is cut off in this call; 0: never
	// answered counts right answers, over all clients.
	answered *atomic.Int64
}

// storm runs one client. Everything that it receives must be its own.
func storm(ctx context.Context, url string, w *wire, c client) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var stray atomic.Value
	opts := &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			if !strings.HasPrefix(req.Params.Message, c.name+" ") {
				stray.Store("progress of another: " + req.Params.Message)
			}
		},
	}
	if c.asks {
		opts.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"word": c.name}}, nil
		}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: c.name, Version: "1"}, opts).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: w.client, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: c.version})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for i := 1; i <= c.calls; i++ {
		if i == c.cutAt {
			// In the middle of a call: the cut comes while it is under way.
			time.AfterFunc(20*time.Millisecond, w.cut)
			if _, err := textOf(ctx, session, "sleep", map[string]any{"milliseconds": 10_000}, nil); err == nil {
				return fmt.Errorf("call %d was answered although the line was cut", i)
			}
			return strayed(&stray)
		}
		if err := c.call(ctx, session, i); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	if err := session.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return strayed(&stray)
}

func strayed(stray *atomic.Value) error {
	if what := stray.Load(); what != nil {
		return fmt.Errorf("received another client's message: %v", what)
	}
	return nil
}

func (c client) call(ctx context.Context, session *mcp.ClientSession, i int) error {
	tool, want := "echo", c.name+" "+strconv.Itoa(i)
	var progress any
	switch {
	case c.asks && i%10 == 0:
		tool, want = "ask", c.name
	case i%10 == 5:
		tool, progress = "count", i // the same tokens at every client
	}
	args := map[string]any{}
	if tool != "ask" {
		args["text"] = want
	}
	got, err := textOf(ctx, session, tool, args, progress)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	if got != want {
		return fmt.Errorf("%s answered %q; want %q", tool, got, want)
	}
	if c.answered != nil {
		c.answered.Add(1)
	}
	return nil
}

// population is how many processes a workload has, inside its container and of
// its gateway.
type population struct{ inside, outside, zombies int }

func (p *place) count(t *testing.T, name string) population {
	t.Helper()
	ids, err := p.containers()
	if err != nil || len(ids) != 1 {
		t.Fatalf("containers: %v, %v", ids, err)
	}
	out, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", ids[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	init, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || init == 0 {
		t.Fatalf("the container's first process: %q, %v", out, err)
	}
	inside, deadInside := below(init)
	outside, deadOutside := below(p.status(t, name).PID)
	return population{inside: len(inside), outside: len(outside), zombies: deadInside + deadOutside}
}

// watchContainers counts containers until the returned function is called, which returns
// the most. A moment without a container counts as many.
func (p *place) watchContainers(t *testing.T) (most func() int) {
	t.Helper()
	end, done := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		for {
			if ids, err := p.containers("status=running"); err == nil && len(ids) != 1 {
				most = max(most, len(ids)+1000*(1-min(len(ids), 1)))
			} else if err == nil {
				most = max(most, 1)
			}
			select {
			case <-end:
				done <- most
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() int { close(end); return <-done }
}
