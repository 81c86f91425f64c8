package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// modernSite runs the test binary in a role and returns the way to it in the
// stateless era.
func modernSite(t *testing.T, cfg stdio.Config, name string) (*site, wire.Stateless) {
	t.Helper()
	s := newSite(t)
	s.bridge = s.backend(t, cfg, role(t, name)...).(*bridge)
	return s, s.bridge.stateless
}

// askModern calls a tool of the crude server in the stateless era.
func askModern(t *testing.T, m wire.Stateless, name, arg string) string {
	t.Helper()
	return backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(tool(name, arg), nil)))
}

// holdModern begins a call that the server keeps until the tool "release" is called with
// name. It returns when the server has it.
func holdModern(ctx context.Context, t *testing.T, m wire.Stateless, name string, x *exchange.Exchange) <-chan backendtest.Outcome {
	t.Helper()
	done := beginModern(ctx, m, x)
	backendtest.Eventually(t, "the server has the call "+name, func() bool { return askModern(t, m, "holds", name) != "nothing" })
	return done
}

func holdExchange(id mcp.ID, name, meta string, p exchange.Peer) *exchange.Exchange {
	return modernExchange(backendtest.Request(id, mcp.MethodToolsCall, fmt.Sprintf(`{"name":"hold","arguments":{"is":%q},"_meta":{%s}}`, name, meta)), p)
}

func TestStdioStateless_RequestsAreSelfContained(t *testing.T) {
	t.Parallel()
	s, m := modernSite(t, stdio.Config{}, "modern")
	pid := askModern(t, m, "pid", "")
	if got := askModern(t, m, "inits", ""); got != "" {
		t.Errorf("it was initialized: %s", got)
	}
	if got := askModern(t, m, "pid", ""); got != pid {
		t.Errorf("the next call got another process, %s instead of %s", got, pid)
	}
	for _, id := range []mcp.ID{mcp.IntID(1), mcp.StringID("1"), mcp.IntID(-7), mcp.StringID("ü \" \n"), mcp.StringID("")} {
		answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(id, "echo", `{"is":"x"}`), nil))
		if err != nil || answer.ID != id {
			t.Errorf("asked with id %s, answered with %v, %v", id, answer, err)
		}
	}
	x := modernExchange(tool("params", ""), nil)
	got := backendtest.Text(m.Do(backendtest.TestContext(t), x))
	if got != string(x.Request.Params) {
		t.Errorf("the server got %s\ninstead of %s", got, x.Request.Params)
	}
	s.eventually(t, 1)
}

func TestStdioStateless_SharesByPrincipal(t *testing.T) {
	t.Parallel()
	s, m := modernSite(t, stdio.Config{}, "modern")
	as := func(principal string) string {
		x := modernExchange(tool("pid", ""), nil)
		x.Client.Principal = principal
		return backendtest.Text(m.Do(backendtest.TestContext(t), x))
	}
	a, b, local := as("a"), as("b"), as("")
	if a == b || a == local || b == local {
		t.Errorf("principals share a process: %s, %s, %s", a, b, local)
	}
	if got := as("a"); got != a {
		t.Errorf("a has got process %s and then %s", a, got)
	}
	s.eventually(t, 3)
}

func TestStdioStateless_ManyAtOnceStartOneProcess(t *testing.T) {
	t.Parallel()
	s, m := modernSite(t, stdio.Config{}, "modern")
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			want := fmt.Sprint("call ", n)
			x := modernExchange(backendtest.Call(mcp.IntID(int64(n%3)), "echo", fmt.Sprintf(`{"is":%q}`, want)), nil)
			answer, err := m.Do(backendtest.TestContext(t), x)
			if got := backendtest.Text(answer, err); got != want {
				t.Errorf("%s instead of %s", got, want)
			} else if answer.ID != x.Request.ID {
				t.Errorf("id %s instead of %s", answer.ID, x.Request.ID)
			}
		})
	}
	wg.Wait()
	s.eventually(t, 1)
}

func TestStdioStateless_ProgressKeepsItsToken(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "modern")
	peers, dones := map[string]*backendtest.Peer{}, map[string]<-chan backendtest.Outcome{}
	tokens := map[string]string{"a": `"same"`, "b": `"same"`, "c": `7`}
	askModern(t, m, "pid", "") // takes the number 1, which is made up below
	for name, token := range tokens {
		peers[name] = backendtest.NewPeer()
		dones[name] = holdModern(backendtest.TestContext(t), t, m, name, holdExchange(mcp.IntID(5), name, `"progressToken":`+token, peers[name]))
	}
	askModern(t, m, "made up progress", "")
	for name, token := range tokens {
		askModern(t, m, "progress of", name)
		n := peers[name].Next(t, mcp.NotificationProgress)
		if want := fmt.Sprintf(`{"progressToken":%s,"progress":1,"message":%q}`, token, name); string(n.Params) != want {
			t.Errorf("%s instead of %s", n.Params, want)
		}
	}
	for name, done := range dones {
		askModern(t, m, "release", name)
		if got := backendtest.Text(backendtest.Wait(t, done)); got != name {
			t.Error(got)
		}
		if len(peers[name].Notes) > 0 {
			t.Errorf("%s also received %s", name, (<-peers[name].Notes).Params)
		}
	}
}

// askingForLogs is a call of a tool of the crude server that asks for log
// messages.
func askingForLogs(t *testing.T, id int64, name, arg string, p exchange.Peer) *exchange.Exchange {
	t.Helper()
	x := modernExchange(backendtest.Call(mcp.IntID(id), name, fmt.Sprintf(`{"is":%q}`, arg)), p)
	params, err := mcp.Set(x.Request.Params, json.RawMessage(`"info"`), "_meta", mcp.MetaLogLevel)
	if err != nil {
		t.Fatal(err)
	}
	x.Request.Params = params
	x.Meta = backendtest.MetaOf(x.Request)
	return x
}

// logs makes the server log what, and reports whether the caller received it.
func logs(t *testing.T, m wire.Stateless, caller *backendtest.Peer, what string) bool {
	t.Helper()
	if got := backendtest.Text(m.Do(backendtest.TestContext(t), askingForLogs(t, 1, "log", what, caller))); got != "logged" {
		t.Fatal(got)
	}
	if len(caller.Notes) == 0 {
		return false
	}
	if got := string(caller.Next(t, mcp.NotificationMessage).Params); !strings.Contains(got, what) {
		t.Error(got)
	}
	return true
}

func TestStdioStateless_LogMessagesAreAttributed(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "modern")
	caller, holder := backendtest.NewPeer(), backendtest.NewPeer()
	if !logs(t, m, caller, "one") {
		t.Error("the only caller did not hear it")
	}
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	defer cancel()
	subscriber, listening := listen(ctx, t, m, mcp.IntID(1))
	if !logs(t, m, caller, "two") {
		t.Error("it did not hear it beside a subscription, whose messages say that they are")
	}
	// MCP 2026-07-28, Logging: about a request that does not ask for log
	// messages there are none.
	quiet, leave := context.WithCancel(backendtest.TestContext(t))
	defer leave()
	done := holdModern(quiet, t, m, "quiet", holdExchange(mcp.IntID(2), "quiet", "", holder))
	if !logs(t, m, caller, "three") {
		t.Error("it did not hear it beside a call that asks for none")
	}
	leave()
	_, _ = backendtest.Wait(t, done)
	if !logs(t, m, caller, "four") {
		t.Error("it did not hear it after one that asked for none was cancelled, which is not answered")
	}
	// One that asks may be meant, also when it was cancelled: the server may not
	// know that yet.
	done = holdModern(ctx, t, m, "x", askingForLogs(t, 3, "hold", "x", holder))
	if logs(t, m, caller, "five") {
		t.Error("a message was given to one of two")
	}
	cancel()
	_, _ = backendtest.Wait(t, done)
	_, _ = backendtest.Wait(t, listening)
	if logs(t, m, caller, "six") {
		t.Error("a message that may be about the cancelled call was given to another")
	}
	for name, p := range map[string]*backendtest.Peer{"holder": holder, "subscriber": subscriber} {
		if len(p.Notes) > 0 {
			t.Errorf("the %s received %s", name, (<-p.Notes).Params)
		}
	}
}

func TestStdioStateless_Cancellation(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "modern")
	ctx, cancel := context.WithCancelCause(backendtest.TestContext(t))
	reason := errors.New("the client went away")
	done := holdModern(ctx, t, m, "x", holdExchange(mcp.StringID("its own"), "x", "", nil))
	id := askModern(t, m, "holds", "x")
	cancel(reason)
	if _, err := backendtest.Wait(t, done); !errors.Is(err, reason) {
		t.Error(err)
	}
	backendtest.Eventually(t, "the server receives it", func() bool {
		return strings.Contains(askModern(t, m, "cancelled", ""), `"requestId":`+id)
	})
}

func TestStdioStateless_ServerMayNotSendRequestsOrCancel(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "modern")
	if got := askModern(t, m, "ask", mcp.MethodSampling); !strings.Contains(got, "-32601") && !strings.Contains(got, "unexpected") {
		t.Error(got)
	}
	answer, err := m.Do(backendtest.TestContext(t), modernExchange(tool("ask", mcp.MethodElicitation), backendtest.Answering(map[string]string{mcp.MethodElicitation: `{"action":"accept"}`})))
	if err != nil || !strings.Contains(string(answer.Encode()), "does not send requests") {
		t.Errorf("%s, %v", answer.Encode(), err)
	}
	done := holdModern(backendtest.TestContext(t), t, m, "x", holdExchange(mcp.IntID(1), "x", "", nil))
	if got := askModern(t, m, "cancel calls", ""); got != "cancelled" {
		t.Error(got)
	}
	askModern(t, m, "release", "x")
	if got := backendtest.Text(backendtest.Wait(t, done)); got != "x" {
		t.Error(got)
	}
}

func TestStdioStateless_ProcessEnds(t *testing.T) {
	t.Parallel()
	s, m := modernSite(t, stdio.Config{}, "modern")
	pid := askModern(t, m, "pid", "")
	_, listening := listen(backendtest.TestContext(t), t, m, mcp.IntID(1))
	held := holdModern(backendtest.TestContext(t), t, m, "x", holdExchange(mcp.IntID(2), "x", "", nil))
	if got := askModern(t, m, "die", ""); !strings.Contains(got, "exit status 3") {
		t.Error(got)
	}
	for _, done := range []<-chan backendtest.Outcome{listening, held} {
		if answer, err := backendtest.Wait(t, done); answer != nil || backendtest.CodeOf(err) != mcp.CodeServerGone {
			t.Errorf("%v, %v", answer, err)
		}
	}
	s.eventually(t, 0)
	if got := askModern(t, m, "pid", ""); got == pid || strings.Contains(got, "error") {
		t.Errorf("process %s after %s", got, pid)
	}
}

func TestStdioStateless_Hostile(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "modern")
	for _, tt := range []struct{ tool, want string }{
		{"garbage", "sober"},
		{"wrong ids", "right"},
		{"twice", "first"},
		{"unreadable", "cannot be understood"},
		{"without id", "-32700"},
		{"split", "joined"},
		{"endless line", "a line of more than 16 MiB"},
		{"crash", "killed by signal 9"},
		{"close output", "closed its output"},
		{"flood", "after the flood"},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			if got := askModern(t, m, tt.tool, ""); !strings.Contains(got, tt.want) {
				t.Errorf("%s instead of %s", got, tt.want)
			}
		})
	}
}

func TestStdioStateless_Lingers(t *testing.T) {
	t.Parallel()
	s, m := modernSite(t, stdio.Config{StatelessLinger: 300 * time.Millisecond}, "modern")
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	_, done := listen(ctx, t, m, mcp.IntID(1))
	pid := askModern(t, m, "pid", "")
	time.Sleep(600 * time.Millisecond) // longer than it lingers: a subscription is a use
	if got := askModern(t, m, "pid", ""); got != pid {
		t.Errorf("process %s after %s", got, pid)
	}
	cancel()
	_, _ = backendtest.Wait(t, done)
	s.eventually(t, 0)
}

func TestStdioStateless_LingeringProcessIsReclaimed(t *testing.T) {
	t.Parallel()
	s, m := modernSite(t, stdio.Config{MaxProcesses: 1}, "modern")
	first := askModern(t, m, "pid", "")
	x := modernExchange(tool("pid", ""), nil)
	x.Client.Principal = "another"
	if got := backendtest.Text(m.Do(backendtest.TestContext(t), x)); got == first || strings.Contains(got, "error") {
		t.Errorf("process %s after %s", got, first)
	}
	s.eventually(t, 1)
}

// overdue is a context whose deadline passes when done is closed: not before the server has
// the request, on a machine of any speed.
type overdue struct {
	context.Context
	done chan struct{}
}

// lineWriter sends what is written to a channel, which must have room.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func (c overdue) Done() <-chan struct{} { return c.done }

func (c overdue) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestStdioStateless_DetectsTheEra(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		role  string
		other bool
		text  string
	}{
		{"modern", false, ""},
		{"refusing", true, "before initialization"},
		{"crude", true, "something else"}, // it answers everything with {}
		{"shy", true, "exit status 4"},
		{"fixture", false, ""},
	} {
		t.Run(tt.role, func(t *testing.T) {
			t.Parallel()
			s, m := modernSite(t, stdio.Config{}, tt.role)
			answer, err := m.Do(backendtest.TestContext(t), discoverExchange())
			if !tt.other {
				if err != nil || !wire.ProvesStateless(answer) {
					t.Fatalf("%v, %v", answer, err)
				}
				s.eventually(t, 1)
				return
			}
			if !isOtherEra(err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, %v", answer, err)
			}
			s.eventually(t, 0)
		})
	}
	t.Run("mute", func(t *testing.T) {
		t.Parallel()
		received := make(chan string, 1)
		s, m := modernSite(t, stdio.Config{Stray: lineWriter(received)}, "mumbling")
		ctx := overdue{t.Context(), make(chan struct{})}
		done := beginModern(ctx, m, discoverExchange())
		select {
		case <-received:
		case <-time.After(backendtest.Patience):
			t.Fatal("the server did not receive the request")
		}
		close(ctx.done)
		if answer, err := backendtest.Wait(t, done); !isOtherEra(err) {
			t.Errorf("%v, %v", answer, err)
		}
		s.eventually(t, 0)
	})
	t.Run("a client that leaves does not show the era", func(t *testing.T) {
		t.Parallel()
		s, m := modernSite(t, stdio.Config{}, "mute")
		ctx, cancel := context.WithCancel(t.Context())
		done := beginModern(ctx, m, discoverExchange())
		s.eventually(t, 1)
		cancel()
		if answer, err := backendtest.Wait(t, done); isOtherEra(err) || err == nil {
			t.Errorf("%v, %v", answer, err)
		}
	})
	t.Run("a process that cannot be started does not show the era", func(t *testing.T) {
		t.Parallel()
		b := newSite(t).backend(t, stdio.Config{}, "/nowhere/at/all").(*bridge)
		if answer, err := b.stateless.Do(backendtest.TestContext(t), discoverExchange()); isOtherEra(err) || backendtest.CodeOf(err) != mcp.CodeServerGone {
			t.Errorf("%v, %v", answer, err)
		}
	})
	t.Run("a server that came to speak another era", func(t *testing.T) {
		t.Parallel()
		_, m := modernSite(t, stdio.Config{}, "modern")
		if _, err := m.Do(backendtest.TestContext(t), modernExchange(tool("era", `{"supported":["2025-11-25"]}`), nil)); !isOtherEra(err) {
			t.Error(err)
		}
		if answer, err := m.Do(backendtest.TestContext(t), modernExchange(tool("era", `{"supported":["2026-07-28"]}`), nil)); err != nil || answer.Error.Code != mcp.CodeUnsupportedVersion {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

func TestStdioStateless_AfterClose(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.backend(t, stdio.Config{}, role(t, "modern")...).(*bridge)
	held := holdModern(backendtest.TestContext(t), t, b.stateless, "x", holdExchange(mcp.IntID(2), "x", "", nil))
	_ = b.Close()
	if _, err := backendtest.Wait(t, held); backendtest.CodeOf(err) != mcp.CodeServerGone {
		t.Error(err)
	}
	if _, err := b.stateless.Do(backendtest.TestContext(t), discoverExchange()); backendtest.CodeOf(err) != mcp.CodeServerGone || isOtherEra(err) {
		t.Error(err)
	}
}

// The official SDK's server over stdio.
func TestStdioStateless_OfficialSDK(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "fixture")
	answer, err := m.Do(backendtest.TestContext(t), discoverExchange())
	if err != nil || answer.Error != nil {
		t.Fatalf("%v, %v", answer, err)
	}
	p := backendtest.NewPeer()
	got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Request(mcp.StringID("s"), mcp.MethodToolsCall,
		`{"name":"progress","arguments":{},"_meta":{"progressToken":"t"}}`), p)))
	if got != "done" || len(p.Notes) != 3 {
		t.Errorf("%s, %d notifications", got, len(p.Notes))
	}
	for range 3 {
		if n := p.Next(t, mcp.NotificationProgress); !strings.Contains(string(n.Params), `"progressToken":"t"`) {
			t.Errorf("%s", n.Params)
		}
	}
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	subscriber, done := listen(ctx, t, m, mcp.StringID("sub"))
	if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(1), "grow", `{}`), nil))); got != "grown" {
		t.Error(got)
	}
	mustBelong(t, subscriber.Next(t, mcp.NotificationToolsChanged).Params, mcp.StringID("sub"))
	cancel()
	_, _ = backendtest.Wait(t, done)
}
