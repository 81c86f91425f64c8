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
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// modernSite runs the test binary in a role and returns the way to it in the
// stateless era.
func modernSite(t *testing.T, cfg StdioConfig, name string) (*site, modern) {
	t.Helper()
	noLeaks(t)
	s := newSite(t)
	b := s.backend(t, cfg, role(t, name)...).(*bridge)
	return s, b.modern
}

// askModern calls a tool of the crude server in the stateless era.
func askModern(t *testing.T, m modern, name, arg string) string {
	t.Helper()
	return text(m.Do(testContext(t), modernExchange(tool(name, arg), nil)))
}

// holdModern begins a call that the server keeps until it is told to release
// name. It returns when the server has it.
func holdModern(ctx context.Context, t *testing.T, m modern, name string, x *exchange.Exchange) <-chan outcome {
	t.Helper()
	done := beginModern(ctx, m, x)
	eventually(t, "the server has the call "+name, func() bool { return askModern(t, m, "holds", name) != "nothing" })
	return done
}

func holdExchange(id mcp.ID, name, meta string, p exchange.Peer) *exchange.Exchange {
	return modernExchange(request(id, mcp.MethodToolsCall, fmt.Sprintf(`{"name":"hold","arguments":{"is":%q},"_meta":{%s}}`, name, meta)), p)
}

func TestModernStdioIsNoConversation(t *testing.T) {
	s, m := modernSite(t, StdioConfig{}, "modern")
	pid := askModern(t, m, "pid", "")
	if got := askModern(t, m, "inits", ""); got != "" {
		t.Errorf("it was initialized: %s", got)
	}
	if got := askModern(t, m, "pid", ""); got != pid {
		t.Errorf("the next call got another process, %s instead of %s", got, pid)
	}
	for _, id := range []mcp.ID{mcp.IntID(1), mcp.StringID("1"), mcp.IntID(-7), mcp.StringID("ü \" \n"), mcp.StringID("")} {
		answer, err := m.Do(testContext(t), modernExchange(call(id, "echo", `{"is":"x"}`), nil))
		if err != nil || answer.ID != id {
			t.Errorf("asked with id %s, answered with %v, %v", id, answer, err)
		}
	}
	x := modernExchange(tool("params", ""), nil)
	got := text(m.Do(testContext(t), x))
	if got != string(x.Request.Params) {
		t.Errorf("the server got %s\ninstead of %s", got, x.Request.Params)
	}
	s.eventually(t, 1)
}

func TestModernStdioSharesByPrincipal(t *testing.T) {
	s, m := modernSite(t, StdioConfig{}, "modern")
	as := func(principal string) string {
		x := modernExchange(tool("pid", ""), nil)
		x.Client.Principal = principal
		return text(m.Do(testContext(t), x))
	}
	a, b, nobody := as("a"), as("b"), as("")
	if a == b || a == nobody || b == nobody {
		t.Errorf("principals share a process: %s, %s, %s", a, b, nobody)
	}
	if got := as("a"); got != a {
		t.Errorf("a has got process %s and then %s", a, got)
	}
	s.eventually(t, 3)
}

func TestModernStdioManyAtOnceStartOneProcess(t *testing.T) {
	s, m := modernSite(t, StdioConfig{}, "modern")
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			want := fmt.Sprint("call ", n)
			x := modernExchange(call(mcp.IntID(int64(n%3)), "echo", fmt.Sprintf(`{"is":%q}`, want)), nil)
			answer, err := m.Do(testContext(t), x)
			if got := text(answer, err); got != want {
				t.Errorf("%s instead of %s", got, want)
			} else if answer.ID != x.Request.ID {
				t.Errorf("id %s instead of %s", answer.ID, x.Request.ID)
			}
		})
	}
	wg.Wait()
	s.eventually(t, 1)
}

func TestModernStdioProgressKeepsItsToken(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "modern")
	peers, dones := map[string]*peer{}, map[string]<-chan outcome{}
	tokens := map[string]string{"a": `"same"`, "b": `"same"`, "c": `7`}
	askModern(t, m, "pid", "") // takes the number 1, which is made up below
	for name, token := range tokens {
		peers[name] = newPeer()
		dones[name] = holdModern(testContext(t), t, m, name, holdExchange(mcp.IntID(5), name, `"progressToken":`+token, peers[name]))
	}
	askModern(t, m, "made up progress", "")
	for name, token := range tokens {
		askModern(t, m, "progress of", name)
		n := peers[name].next(t, mcp.NotificationProgress)
		if want := fmt.Sprintf(`{"progressToken":%s,"progress":1,"message":%q}`, token, name); string(n.Params) != want {
			t.Errorf("%s instead of %s", n.Params, want)
		}
	}
	for name, done := range dones {
		askModern(t, m, "release", name)
		if got := text(wait(t, done)); got != name {
			t.Error(got)
		}
		if len(peers[name].notes) > 0 {
			t.Errorf("%s heard %s too", name, (<-peers[name].notes).Params)
		}
	}
}

// askingForLogs is a call of a tool of the crude server that asks for log
// messages.
func askingForLogs(t *testing.T, id int64, name, arg string, p exchange.Peer) *exchange.Exchange {
	t.Helper()
	x := modernExchange(call(mcp.IntID(id), name, fmt.Sprintf(`{"is":%q}`, arg)), p)
	params, err := mcp.Set(x.Request.Params, json.RawMessage(`"info"`), "_meta", mcp.MetaLogLevel)
	if err != nil {
		t.Fatal(err)
	}
	x.Request.Params = params
	return x
}

// logs has the server log what, and tells whether the caller heard it.
func logs(t *testing.T, m modern, caller *peer, what string) bool {
	t.Helper()
	if got := text(m.Do(testContext(t), askingForLogs(t, 1, "log", what, caller))); got != "logged" {
		t.Fatal(got)
	}
	if len(caller.notes) == 0 {
		return false
	}
	if got := string(caller.next(t, mcp.NotificationMessage).Params); !strings.Contains(got, what) {
		t.Error(got)
	}
	return true
}

func TestModernStdioWhoseIsALogMessage(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "modern")
	caller, holder := newPeer(), newPeer()
	if !logs(t, m, caller, "one") {
		t.Error("the only caller did not hear it")
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	subscriber, listening := listen(ctx, t, m, mcp.IntID(1))
	if !logs(t, m, caller, "two") {
		t.Error("it did not hear it beside a subscription, whose messages say that they are")
	}
	// MCP 2026-07-28, Logging: about a request that does not ask for log
	// messages there are none.
	quiet, leave := context.WithCancel(testContext(t))
	defer leave()
	done := holdModern(quiet, t, m, "quiet", holdExchange(mcp.IntID(2), "quiet", "", holder))
	if !logs(t, m, caller, "three") {
		t.Error("it did not hear it beside a call that asks for none")
	}
	leave()
	_, _ = wait(t, done)
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
	_, _ = wait(t, done)
	_, _ = wait(t, listening)
	if logs(t, m, caller, "six") {
		t.Error("a message that may be about the cancelled call was given to another")
	}
	for name, p := range map[string]*peer{"holder": holder, "subscriber": subscriber} {
		if len(p.notes) > 0 {
			t.Errorf("the %s heard %s", name, (<-p.notes).Params)
		}
	}
}

func TestModernStdioAServerThatLogsUnaskedIsNotReliedOn(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "modern")
	caller, other := newPeer(), newPeer()
	_, _ = m.Do(testContext(t), modernExchange(tool("log", "unasked"), other))
	if len(other.notes) > 0 {
		t.Error("who asked for no log messages has heard one")
	}
	if !logs(t, m, caller, "alone") {
		t.Error("the only request in flight did not hear it")
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	done := holdModern(ctx, t, m, "quiet", holdExchange(mcp.IntID(2), "quiet", "", other))
	if logs(t, m, caller, "whose") {
		t.Error("what may be about the quiet call was given to another")
	}
	cancel()
	_, _ = wait(t, done)
}

func TestModernStdioCancellation(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "modern")
	ctx, cancel := context.WithCancelCause(testContext(t))
	reason := errors.New("the client went away")
	done := holdModern(ctx, t, m, "x", holdExchange(mcp.StringID("its own"), "x", "", nil))
	id := askModern(t, m, "holds", "x")
	cancel(reason)
	if _, err := wait(t, done); !errors.Is(err, reason) {
		t.Error(err)
	}
	eventually(t, "the server is told", func() bool {
		return strings.Contains(askModern(t, m, "cancelled", ""), `"requestId":`+id)
	})
}

func TestModernStdioServerMayNotAskOrCancel(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "modern")
	if got := askModern(t, m, "ask", mcp.MethodSampling); !strings.Contains(got, "-32601") && !strings.Contains(got, "unexpected") {
		t.Error(got)
	}
	answer, err := m.Do(testContext(t), modernExchange(tool("ask", mcp.MethodElicitation), answering(map[string]string{mcp.MethodElicitation: `{"action":"accept"}`})))
	if err != nil || !strings.Contains(string(answer.Encode()), "does not send requests") {
		t.Errorf("%s, %v", answer.Encode(), err)
	}
	done := holdModern(testContext(t), t, m, "x", holdExchange(mcp.IntID(1), "x", "", nil))
	if got := askModern(t, m, "cancel calls", ""); got != "cancelled" {
		t.Error(got)
	}
	askModern(t, m, "release", "x")
	if got := text(wait(t, done)); got != "x" {
		t.Error(got)
	}
}

func TestModernStdioProcessThatEnds(t *testing.T) {
	s, m := modernSite(t, StdioConfig{}, "modern")
	pid := askModern(t, m, "pid", "")
	_, listening := listen(testContext(t), t, m, mcp.IntID(1))
	held := holdModern(testContext(t), t, m, "x", holdExchange(mcp.IntID(2), "x", "", nil))
	if got := askModern(t, m, "die", ""); !strings.Contains(got, "exit status 3") {
		t.Error(got)
	}
	for _, done := range []<-chan outcome{listening, held} {
		if answer, err := wait(t, done); answer != nil || codeOf(err) != mcp.CodeServerGone {
			t.Errorf("%v, %v", answer, err)
		}
	}
	s.eventually(t, 0)
	if got := askModern(t, m, "pid", ""); got == pid || strings.Contains(got, "error") {
		t.Errorf("process %s after %s", got, pid)
	}
}

func TestModernStdioHostile(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "modern")
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

func TestModernStdioLingers(t *testing.T) {
	s, m := modernSite(t, StdioConfig{ModernLinger: 300 * time.Millisecond}, "modern")
	ctx, cancel := context.WithCancel(testContext(t))
	_, done := listen(ctx, t, m, mcp.IntID(1))
	pid := askModern(t, m, "pid", "")
	time.Sleep(600 * time.Millisecond) // longer than it lingers: a subscription is a use
	if got := askModern(t, m, "pid", ""); got != pid {
		t.Errorf("process %s after %s", got, pid)
	}
	cancel()
	_, _ = wait(t, done)
	s.eventually(t, 0)
}

func TestModernStdioProcessThatLingersMakesWay(t *testing.T) {
	s, m := modernSite(t, StdioConfig{MaxProcesses: 1}, "modern")
	first := askModern(t, m, "pid", "")
	x := modernExchange(tool("pid", ""), nil)
	x.Client.Principal = "somebody"
	if got := text(m.Do(testContext(t), x)); got == first || strings.Contains(got, "error") {
		t.Errorf("process %s after %s", got, first)
	}
	s.eventually(t, 1)
}

// overdue is a context whose deadline passes when the test says so: not before the
// process it waits for has been started, however busy the machine is.
type overdue struct {
	context.Context
	done chan struct{}
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

func TestModernStdioTellsTheEra(t *testing.T) {
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
			s, m := modernSite(t, StdioConfig{}, tt.role)
			answer, err := m.Do(testContext(t), discoverExchange())
			if !tt.other {
				if err != nil || !provesModern(answer) {
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
		s, m := modernSite(t, StdioConfig{}, "mute")
		ctx := overdue{t.Context(), make(chan struct{})}
		done := beginModern(ctx, m, discoverExchange())
		s.eventually(t, 1)
		close(ctx.done)
		if answer, err := wait(t, done); !isOtherEra(err) {
			t.Errorf("%v, %v", answer, err)
		}
		s.eventually(t, 0)
	})
	t.Run("a client that goes away tells nothing", func(t *testing.T) {
		s, m := modernSite(t, StdioConfig{}, "mute")
		ctx, cancel := context.WithCancel(t.Context())
		done := beginModern(ctx, m, discoverExchange())
		s.eventually(t, 1)
		cancel()
		if answer, err := wait(t, done); isOtherEra(err) || err == nil {
			t.Errorf("%v, %v", answer, err)
		}
	})
	t.Run("a process that cannot be started tells nothing", func(t *testing.T) {
		noLeaks(t)
		b := newSite(t).backend(t, StdioConfig{}, "/nowhere/at/all").(*bridge)
		if answer, err := b.modern.Do(testContext(t), discoverExchange()); isOtherEra(err) || codeOf(err) != mcp.CodeServerGone {
			t.Errorf("%v, %v", answer, err)
		}
	})
	t.Run("a server that came to speak another era", func(t *testing.T) {
		_, m := modernSite(t, StdioConfig{}, "modern")
		if _, err := m.Do(testContext(t), modernExchange(tool("era", `{"supported":["2025-11-25"]}`), nil)); !isOtherEra(err) {
			t.Error(err)
		}
		if answer, err := m.Do(testContext(t), modernExchange(tool("era", `{"supported":["2026-07-28"]}`), nil)); err != nil || answer.Error.Code != mcp.CodeUnsupportedVersion {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

func TestModernStdioAfterClose(t *testing.T) {
	noLeaks(t)
	s := newSite(t)
	b := s.backend(t, StdioConfig{}, role(t, "modern")...).(*bridge)
	held := holdModern(testContext(t), t, b.modern, "x", holdExchange(mcp.IntID(2), "x", "", nil))
	_ = b.Close()
	if _, err := wait(t, held); codeOf(err) != mcp.CodeServerGone {
		t.Error(err)
	}
	if _, err := b.modern.Do(testContext(t), discoverExchange()); codeOf(err) != mcp.CodeServerGone || isOtherEra(err) {
		t.Error(err)
	}
}

// The official SDK's server over stdio.
func TestModernStdioWithTheSDK(t *testing.T) {
	_, m := modernSite(t, StdioConfig{}, "fixture")
	answer, err := m.Do(testContext(t), discoverExchange())
	if err != nil || answer.Error != nil {
		t.Fatalf("%v, %v", answer, err)
	}
	p := newPeer()
	got := text(m.Do(testContext(t), modernExchange(request(mcp.StringID("s"), mcp.MethodToolsCall,
		`{"name":"progress","arguments":{},"_meta":{"progressToken":"t"}}`), p)))
	if got != "done" || len(p.notes) != 3 {
		t.Errorf("%s, %d notifications", got, len(p.notes))
	}
	for range 3 {
		if n := p.next(t, mcp.NotificationProgress); !strings.Contains(string(n.Params), `"progressToken":"t"`) {
			t.Errorf("%s", n.Params)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	subscriber, done := listen(ctx, t, m, mcp.StringID("sub"))
	if got := text(m.Do(testContext(t), modernExchange(call(mcp.IntID(1), "grow", `{}`), nil))); got != "grown" {
		t.Error(got)
	}
	mustBelong(t, subscriber.next(t, mcp.NotificationToolsChanged).Params, mcp.StringID("sub"))
	cancel()
	_, _ = wait(t, done)
}
