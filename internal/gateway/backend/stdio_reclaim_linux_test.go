package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// elicits is a client of the session era to which the server may send requests, so that
// it has a process of its own.
func elicits() *exchange.Client {
	c := plain()
	c.Capabilities = []byte(`{"elicitation":{}}`)
	return c
}

// Clients that open a session, call once and leave without closing it, one after the
// other, as programs with the TypeScript SDK do.
func TestStdio_AbandonedSessionsAreReclaimed(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"default": 0, "two": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.backend(t, stdio.Config{MaxProcesses: limit}, role(t, "crude")...)
			check := plain()
			check.LivenessCheck = true
			watch := openAs(t, b, check, backendtest.NewPeer())
			var first exchange.Conn
			for n := range 40 {
				start := time.Now()
				conn := openAs(t, b, elicits(), backendtest.NewPeer())
				if got := ask(t, conn, "echo", "x"); got != "x" {
					t.Fatalf("client %d: %s", n, got)
				}
				if took := time.Since(start); took > 20*time.Second {
					t.Errorf("client %d waited %s", n, took)
				}
				if first == nil {
					first = conn
				}
			}
			mustEnd(t, first)
			if got := backendtest.Text(first.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("echo", ""), backendtest.NewPeer()))); !strings.Contains(got, "it was idle and another client needed one; initialize again") {
				t.Errorf("a call in a reclaimed session: %s", got)
			}
			mustLive(t, watch) // the gateway's own session makes room last
			if p := b.ServerInfo().Processes; p.Busy != "" || p.Waiting != 0 || p.Running > p.Max {
				t.Errorf("the processes are reported as %+v", p)
			}
		})
	}
}

func TestStdio_BusySessionsAreNotReclaimed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.backend(t, stdio.Config{MaxProcesses: 2, QueueTimeout: time.Minute}, role(t, "crude")...)
	busy, idle := openAs(t, b, elicits(), backendtest.NewPeer()), openAs(t, b, elicits(), backendtest.NewPeer())
	held, _ := hold(backendtest.TestContext(t), t, busy, "x", backendtest.NewPeer())
	ask(t, idle, "echo", "used last")
	mustLive(t, openAs(t, b, elicits(), backendtest.NewPeer()))
	mustEnd(t, idle)
	mustLive(t, busy)
	ask(t, busy, "release", "x")
	if got := backendtest.Text(backendtest.Wait(t, held)); got != "x" {
		t.Error(got)
	}
}

// A session that sets a log level or subscribes keeps its process, and so does every
// other session there. Each receives what it requested.
func TestStdio_SharedProcessSeparatesPreferences(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.backend(t, stdio.Config{}, role(t, "crude")...)
	peers := map[string]*backendtest.Peer{"verbose": backendtest.NewPeer(), "terse": backendtest.NewPeer(), "neither": backendtest.NewPeer()}
	conns := map[string]exchange.Conn{}
	for name, p := range peers {
		conns[name] = openAs(t, b, plain(), p)
	}
	request := func(name, method, params string) {
		t.Helper()
		if answer, err := conns[name].Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), method, params), backendtest.NewPeer())); err != nil || answer.Error != nil {
			t.Fatalf("%s: %v, %v", method, answer, err)
		}
	}
	pid := ask(t, conns["neither"], "pid", "")
	request("verbose", mcp.MethodSetLevel, `{"level":"info"}`)
	request("terse", mcp.MethodSetLevel, `{"level":"error"}`)
	request("verbose", mcp.MethodResourcesSubscribe, `{"uri":"a:b"}`)
	request("terse", mcp.MethodResourcesSubscribe, `{"uri":"a:b"}`)
	request("terse", mcp.MethodResourcesUnsubscribe, `{"uri":"a:b"}`)
	for name, conn := range conns {
		if got := ask(t, conn, "pid", ""); got != pid {
			t.Errorf("the process of %s is %s, and was %s", name, got, pid)
		}
	}
	if level, watched := ask(t, conns["neither"], "level", ""), ask(t, conns["neither"], "watched", ""); level != "info" || watched != "a:b" {
		t.Errorf("the server has the level %q and the subscriptions %q", level, watched)
	}
	held, _ := hold(backendtest.TestContext(t), t, conns["neither"], "x", backendtest.NewPeer()) // so that several are in flight
	ask(t, conns["neither"], "log", "to whom")
	ask(t, conns["neither"], "updated", "")
	ask(t, conns["neither"], "release", "x")
	backendtest.Wait(t, held)
	peers["verbose"].Next(t, mcp.NotificationMessage)
	peers["verbose"].Next(t, mcp.NotificationResourceUpdated)
	caller := backendtest.NewPeer() // the sole request: its own log messages, above its level
	if got := backendtest.Text(conns["terse"].Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("log", "info"), caller))); got != "logged" {
		t.Fatal(got)
	}
	for name, p := range map[string]*backendtest.Peer{"verbose": peers["verbose"], "terse": peers["terse"], "neither": peers["neither"], "a call of terse": caller} {
		if len(p.Notes) > 0 {
			t.Errorf("%s also received %s", name, (<-p.Notes).Encode())
		}
	}
	// A session that is closed leaves no subscription behind.
	_ = conns["verbose"].Close()
	backendtest.Eventually(t, "the subscription is ended", func() bool { return ask(t, conns["neither"], "watched", "") == "" })
	// One that moves takes them along.
	request("terse", mcp.MethodResourcesSubscribe, `{"uri":"c:d"}`)
	request("terse", "tasks/list", `{}`)
	if level, watched := ask(t, conns["terse"], "level", ""), ask(t, conns["terse"], "watched", ""); level != "error" || watched != "c:d" {
		t.Errorf("after the move the server has the level %q and the subscriptions %q", level, watched)
	}
}

// A client of the stateless era has one process, also for calls side by side.
func TestStdio_StatelessClientHasOneProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.backend(t, stdio.Config{}, role(t, "crude")...)
	call := func(name, arg string, p exchange.Peer) string {
		return backendtest.Text(b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"`+name+`","arguments":{"is":"`+arg+`"}`, `{"elicitation":{}}`, p)))
	}
	done := make(chan string, 1)
	go func() { done <- call("hold", "x", backendtest.NewPeer()) }()
	backendtest.Eventually(t, "the call is held", func() bool { return call("holds", "x", backendtest.NewPeer()) != "nothing" })
	asked := backendtest.Answering(map[string]string{mcp.MethodElicitation: `{"action":"decline"}`})
	if got := call("ask", mcp.MethodElicitation, asked); !strings.Contains(got, "decline") {
		t.Errorf("the client's answer beside another call: %s", got)
	}
	call("release", "x", backendtest.NewPeer())
	if got := <-done; got != "x" {
		t.Error(got)
	}
	s.eventually(t, 1)
}

// The subscriptions and the calls of a stateless client are served by one process, also
// when another client, with the same capabilities, was there before.
func TestStdio_StatelessClientsDoNotShareSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.backend(t, stdio.Config{}, role(t, "crude")...)
	request := func(client, method, members string, p exchange.Peer) *exchange.Exchange {
		x := statelessRequest(method, members, `{"elicitation":{}}`, p)
		x.Client.Info = json.RawMessage(`{"name":"` + client + `","version":"1"}`)
		return x
	}
	call := func(client, tool string) string {
		return backendtest.Text(b.Do(backendtest.TestContext(t), request(client, mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{"is":""}`, backendtest.NewPeer())))
	}
	first := call("first", "pid")
	if _, err := b.Do(backendtest.TestContext(t), request("first", mcp.MethodDiscover, "", backendtest.NewPeer())); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	peer, listening := backendtest.NewPeer(), make(chan struct{})
	go func() {
		defer close(listening)
		_, _ = b.Do(ctx, request("second", mcp.MethodSubscriptionsListen, `"notifications":{"resourceSubscriptions":["a:b"]}`, peer))
	}()
	peer.Next(t, mcp.NotificationSubscribed)
	if got := call("second", "pid"); got == first {
		t.Errorf("both clients have the process %s", got)
	}
	if got := call("second", "watched"); got != "a:b" {
		t.Errorf("the process that serves the calls has the subscriptions %q", got)
	}
	call("second", "updated")
	peer.Next(t, mcp.NotificationResourceUpdated)
	leave()
	<-listening
}

// A process that was stopped fails its calls in bounded time, and serves its sessions
// again when it goes on.
func TestStdio_FrozenProcess(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": elicits()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.backend(t, stdio.Config{CheckAfter: 200 * time.Millisecond}, role(t, "crude")...)
			conn := openAs(t, b, client, backendtest.NewPeer())
			pid, err := strconv.Atoi(ask(t, conn, "pid", ""))
			if err != nil {
				t.Fatal(err)
			}
			// A call that takes long at a server that responds is not touched.
			held, _ := hold(backendtest.TestContext(t), t, conn, "x", backendtest.NewPeer())
			time.Sleep(time.Second)
			ask(t, conn, "release", "x")
			if got := backendtest.Text(backendtest.Wait(t, held)); got != "x" {
				t.Fatal(got)
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			// Each of its threads stops for itself.
			backendtest.Eventually(t, "the process is stopped", func() bool {
				threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
				return len(threads) > 0 && !slices.ContainsFunc(threads, func(file string) bool {
					stat, err := os.ReadFile(file)
					_, state, _ := strings.Cut(string(stat), ") ")
					return err == nil && !strings.HasPrefix(state, "T")
				})
			})
			for n := range 3 {
				if got := ask(t, conn, "echo", "frozen"); !strings.Contains(got, "the server does not respond") {
					t.Errorf("call %d to a frozen server: %s", n, got)
				}
			}
			if name == "shared" { // a new session is not given the frozen process
				if got := ask(t, openAs(t, b, client, backendtest.NewPeer()), "echo", "x"); got != "x" {
					t.Error(got)
				}
			}
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			backendtest.Eventually(t, "the session is served again", func() bool { return ask(t, conn, "echo", "again") == "again" })
			mustLive(t, conn)
		})
	}
}

// A server that runs its tools on the thread that reads answers no ping meanwhile. It is
// at work and not frozen, so its calls are not failed.
func TestStdio_BlockedProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.backend(t, stdio.Config{CheckAfter: 100 * time.Millisecond}, role(t, "crude")...)
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	if got := ask(t, conn, "block", "2s"); got != "done" {
		t.Error(got)
	}
}
