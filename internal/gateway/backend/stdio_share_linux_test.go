package backend

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestStdioWhoSharesAProcess(t *testing.T) {
	with := func(change func(*exchange.Client)) *exchange.Client {
		c := plain()
		change(c)
		return c
	}
	declares := func(capabilities string) *exchange.Client {
		return with(func(c *exchange.Client) { c.Capabilities = json.RawMessage(capabilities) })
	}
	tests := []struct {
		name          string
		first, second *exchange.Client
		share         bool
	}{
		{"the same client twice", plain(), plain(), true},
		{"another name", plain(), with(func(c *exchange.Client) { c.Info = json.RawMessage(`{"name":"other","version":"2"}`) }), true},
		{"the same capabilities written otherwise", declares(`{"experimental":{"a":{},"b":{"x":1}}}`), declares(` { "experimental" : {"b":{"x":1},"a":{}} }`), true},
		{"nothing declared", plain(), with(func(c *exchange.Client) { c.Capabilities = nil }), true},
		{"another principal", plain(), with(func(c *exchange.Client) { c.Principal = "somebody" }), false},
		{"another version", plain(), with(func(c *exchange.Client) { c.Version = mcp.V20250618 }), false},
		{"other capabilities", plain(), declares(`{"experimental":{}}`), false},
		{"other numbers", declares(`{"experimental":{"a":{"n":1}}}`), declares(`{"experimental":{"a":{"n":1.0}}}`), false},
		{"both can sample", declares(`{"sampling":{}}`), declares(`{"sampling":{}}`), false},
		{"both elicit", declares(`{"elicitation":{}}`), declares(`{"elicitation":{}}`), false},
		{"both have roots", declares(`{"roots":{}}`), declares(`{"roots":{}}`), false},
	}
	_, b := crudeBackend(t, StdioConfig{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, second := openAs(t, b, tt.first, newPeer()), openAs(t, b, tt.second, newPeer())
			if share := ask(t, first, "pid", "") == ask(t, second, "pid", ""); share != tt.share {
				t.Errorf("they share: %v, want %v", share, tt.share)
			}
		})
	}
}

func TestStdioRefusesAmbiguousCapabilities(t *testing.T) {
	s, b := crudeBackend(t, StdioConfig{})
	for _, capabilities := range []string{`{"roots":{},"roots":null}`, `{"Sampling":{}}`, `[]`, `null`, `"x"`} {
		c := plain()
		c.Capabilities = json.RawMessage(capabilities)
		if _, err := b.Open(testContext(t), c, newPeer()); codeOf(err) != mcp.CodeInvalidParams {
			t.Errorf("%s: %v", capabilities, err)
		}
	}
	s.eventually(t, 0)
}

func TestStdioSessionThatWantsSomethingOfItsOwnMoves(t *testing.T) {
	for _, m := range []*mcp.Message{
		request(mcp.IntID(1), mcp.MethodSetLevel, `{"level":"error"}`),
		request(mcp.IntID(1), mcp.MethodResourcesSubscribe, `{"uri":"a:b"}`),
		request(mcp.IntID(1), mcp.MethodResourcesUnsubscribe, `{"uri":"a:b"}`),
		request(mcp.IntID(1), "tasks/list", `{}`),
		request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"echo","arguments":{},"task":{"ttl":1000}}`),
	} {
		t.Run(m.Method, func(t *testing.T) {
			s, b := crudeBackend(t, StdioConfig{})
			peerA := newPeer()
			a, other := openAs(t, b, plain(), peerA), openAs(t, b, plain(), newPeer())
			held, _ := hold(testContext(t), t, a, "before", newPeer())
			before := ask(t, other, "pid", "")
			var wg sync.WaitGroup
			for range 5 { // moved once, however many ask
				wg.Go(func() {
					if answer, err := a.Do(testContext(t), exchangeOf(m, newPeer())); err != nil || answer.Error != nil {
						t.Errorf("%v, %v", answer, err)
					}
				})
			}
			wg.Wait()
			own := ask(t, a, "pid", "")
			if own == before || ask(t, other, "pid", "") != before {
				t.Errorf("the processes are %s and %s, and were %s", own, ask(t, other, "pid", ""), before)
			}
			if got := ask(t, other, "level", ""); got != "" {
				t.Errorf("the other session has got the level %q", got)
			}
			if got := ask(t, a, "inits", ""); strings.Count(got, "\n") > 0 || !strings.Contains(got, `"plain"`) {
				t.Errorf("the new process was initialized with %s", got)
			}
			// What was asked before is answered by whom it was asked.
			ask(t, other, "release", "before")
			if got := text(wait(t, held)); got != "before" {
				t.Error(got)
			}
			s.eventually(t, 2)
			// Its own process speaks to it alone, and dies with it alone.
			ask(t, a, "changed", "")
			_ = other.Close()
			s.eventually(t, 1)
			mustLive(t, a)
			if got := text(a.Do(testContext(t), exchangeOf(tool("die", ""), newPeer()))); !strings.Contains(got, "exit status 3") {
				t.Error(got)
			}
			mustEnd(t, a)
			s.eventually(t, 0)
		})
	}
}

func TestStdioSharedProcessTellsItsSessionsApart(t *testing.T) {
	_, b := crudeBackend(t, StdioConfig{})
	sessionA, sessionB := newPeer(), newPeer()
	a, c := openAs(t, b, plain(), sessionA), openAs(t, b, plain(), sessionB)
	ctx := testContext(t)
	holdA, holdB := newPeer(), newPeer()
	doneA, _ := hold(ctx, t, a, "A", holdA)
	doneB, _ := hold(ctx, t, c, "B", holdB)

	ask(t, c, "made up progress", "") // 1 may be somebody's number: it is the server's to say
	for len(holdA.notes) > 0 {
		<-holdA.notes
	}
	for len(holdB.notes) > 0 {
		<-holdB.notes
	}
	ask(t, c, "progress of", "A")
	ask(t, a, "progress of", "B")
	for name, p := range map[string]*peer{"A": holdA, "B": holdB} {
		if len(p.notes) != 1 {
			t.Fatalf("%s was told %d times of progress", name, len(p.notes))
		}
		n := <-p.notes
		token, _, _ := mcp.Lookup(n.Params, "progressToken")
		message, _, _ := mcp.LookupString(n.Params, "message")
		if string(token) != `"same"` || message != name {
			t.Errorf("%s was told %s", name, n.Params)
		}
	}
	// Several are in flight: whose is a log message?
	caller := newPeer()
	if got := text(a.Do(ctx, exchangeOf(tool("log", "secret of A"), caller))); got != "logged" {
		t.Fatal(got)
	}
	ask(t, a, "updated", "")
	ask(t, a, "release", "A")
	ask(t, a, "release", "B")
	if got := text(wait(t, doneA)) + text(wait(t, doneB)); got != "AB" {
		t.Error(got)
	}
	// Exactly one: it is that one's.
	if got := text(a.Do(ctx, exchangeOf(tool("log", "of the only one"), caller))); got != "logged" {
		t.Fatal(got)
	}
	if n := caller.next(t, mcp.NotificationMessage); !strings.Contains(string(n.Params), "of the only one") {
		t.Errorf("told %s", n.Params)
	}
	// The list is everybody's.
	ask(t, a, "changed", "")
	for name, p := range map[string]*peer{"A": sessionA, "B": sessionB} {
		p.next(t, mcp.NotificationToolsChanged)
		if len(p.notes) > 0 {
			t.Errorf("session %s was also told %s", name, (<-p.notes).Encode())
		}
	}
	for name, p := range map[string]*peer{"A": holdA, "B": holdB, "caller": caller} {
		if len(p.notes) > 0 {
			t.Errorf("%s was also told %s", name, (<-p.notes).Encode())
		}
	}
}

// A cancelled request is still one the server may speak about.
func TestStdioSharedProcessMindsCancelledRequests(t *testing.T) {
	_, b := crudeBackend(t, StdioConfig{})
	a, c := openAs(t, b, plain(), newPeer()), openAs(t, b, plain(), newPeer())
	ctx, cancel := context.WithCancel(testContext(t))
	gone, _ := hold(ctx, t, a, "gone", newPeer())
	cancel()
	if _, err := wait(t, gone); err == nil {
		t.Fatal("a cancelled call was answered")
	}
	other := newPeer()
	if got := text(c.Do(testContext(t), exchangeOf(tool("log", "perhaps about the cancelled one"), other))); got != "logged" {
		t.Fatal(got)
	}
	if len(other.notes) > 0 {
		t.Errorf("another session was told %s", (<-other.notes).Encode())
	}
	ask(t, c, "release", "gone") // answered: now it is over
	if got := text(c.Do(testContext(t), exchangeOf(tool("log", "mine"), other))); got != "logged" {
		t.Fatal(got)
	}
	other.next(t, mcp.NotificationMessage)
}

func TestStdioSharedProcessCannotAsk(t *testing.T) {
	_, b := crudeBackend(t, StdioConfig{})
	conn := openAs(t, b, plain(), newPeer())
	p := newPeer()
	p.answer = func(context.Context, *mcp.Message) (*mcp.Message, error) {
		t.Error("the client was asked")
		return nil, nil
	}
	for _, method := range []string{mcp.MethodSampling, mcp.MethodElicitation, mcp.MethodRootsList, "x/y"} {
		got := text(conn.Do(testContext(t), exchangeOf(tool("ask", method), p)))
		if !strings.Contains(got, `"id":"question `+method+`"`) || !strings.Contains(got, "-32601") || !strings.Contains(got, "did not declare") {
			t.Errorf("%s is answered %s", method, got)
		}
	}
	if got := text(conn.Do(testContext(t), exchangeOf(tool("ask", mcp.MethodPing), p))); got != `{"jsonrpc":"2.0","id":"question ping","result":{}}` {
		t.Errorf("ping is answered %s", got)
	}
}

func TestStdioOwnProcessAsks(t *testing.T) {
	_, b := crudeBackend(t, StdioConfig{})
	session := answering(map[string]string{mcp.MethodSampling: `{"from":"the session"}`})
	conn := openAs(t, b, fullClient(), session)
	caller := answering(map[string]string{mcp.MethodSampling: `{"from":"the caller"}`})
	got := text(conn.Do(testContext(t), exchangeOf(tool("ask", mcp.MethodSampling), caller)))
	if got != `{"jsonrpc":"2.0","id":"question sampling/createMessage","result":{"from":"the caller"}}` {
		t.Errorf("one call in flight: %s", got)
	}
	held, _ := hold(testContext(t), t, conn, "x", newPeer())
	got = text(conn.Do(testContext(t), exchangeOf(tool("ask", mcp.MethodSampling), caller)))
	if !strings.Contains(got, "the session") {
		t.Errorf("several in flight: %s", got)
	}
	ask(t, conn, "release", "x")
	wait(t, held)

	// A question that the server takes back is taken back from the client.
	taken := make(chan struct{})
	caller.answer = func(ctx context.Context, _ *mcp.Message) (*mcp.Message, error) {
		<-ctx.Done()
		close(taken)
		return nil, ctx.Err()
	}
	session.answer = caller.answer
	if got := text(conn.Do(testContext(t), exchangeOf(tool("take back", ""), caller))); got != "taken back" {
		t.Error(got)
	}
	select {
	case <-taken:
	case <-time.After(patience):
		t.Error("the client still has the question")
	}
	if got := ask(t, conn, "echo", "and nothing was answered"); got != "and nothing was answered" {
		t.Error(got)
	}
}

func TestStdioSharedProcessEndsAfterItsLastSession(t *testing.T) {
	const linger = time.Second
	s, b := crudeBackend(t, StdioConfig{Linger: linger})
	a, c := openAs(t, b, plain(), newPeer()), openAs(t, b, plain(), newPeer())
	pid := ask(t, a, "pid", "")
	held, _ := hold(testContext(t), t, a, "x", newPeer())
	a.Close()
	if got := text(wait(t, held)); !strings.Contains(got, "session was closed") {
		t.Errorf("a call of a closed session: %s", got)
	}
	mustEnd(t, a)
	if got := text(a.Do(testContext(t), exchangeOf(tool("echo", ""), newPeer()))); !strings.Contains(got, "session was closed") {
		t.Errorf("a call on a closed session: %s", got)
	}
	mustLive(t, c)
	closed := time.Now()
	c.Close()
	again := openAs(t, b, plain(), newPeer()) // it lingers
	if got := ask(t, again, "pid", ""); got != pid && time.Since(closed) < linger {
		t.Errorf("another process, %s instead of %s", got, pid)
	}
	time.Sleep(linger + linger/4) // longer than the linger of before
	mustLive(t, again)
	again.Close()
	s.eventually(t, 0)
	if got := ask(t, openAs(t, b, plain(), newPeer()), "pid", ""); got == pid {
		t.Error("the process of before answers")
	}
}

func TestStdioManyOpenAtOnce(t *testing.T) {
	s, b := crudeBackend(t, StdioConfig{})
	first, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // the one that starts the process gives up
		close(started)
		conn, err := b.Open(first, plain(), newPeer())
		if err == nil {
			conn.Close()
		}
	})
	<-started
	for range 20 {
		wg.Go(func() {
			conn, err := b.Open(testContext(t), plain(), newPeer())
			if err != nil {
				t.Error(err)
				return
			}
			if got := ask(t, conn, "echo", "x"); got != "x" {
				t.Error(got)
			}
		})
	}
	cancel()
	wg.Wait()
	s.eventually(t, 1)
}

// Stateless clients share a session also when that has a process of its own,
// because one of them wants log messages.
func TestStdioProgressTokensOfStatelessClients(t *testing.T) {
	_, b := crudeBackend(t, StdioConfig{})
	play := func(tool, args, meta string, p *peer) {
		x := statelessRequest(mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{"is":"`+args+`"}`, `{}`, p)
		var err error
		if x.Request.Params, err = mcp.Insert(x.Request.Params, []byte(meta), "_meta"); err == nil {
			_, err = b.Do(testContext(t), x)
		}
		if err != nil {
			t.Error(err)
		}
	}
	play("echo", "", `"`+mcp.MetaLogLevel+`":"info"`, newPeer())
	one, two := newPeer(), newPeer()
	var held sync.WaitGroup
	for name, p := range map[string]*peer{"one": one, "two": two} {
		held.Go(func() { play("hold", name, `"progressToken":1`, p) })
		eventually(t, "it is held", func() bool {
			return text(b.Do(testContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"holds","arguments":{"is":"`+name+`"}`, `{}`, newPeer()))) != "nothing"
		})
	}
	for name, p := range map[string]*peer{"one": one, "two": two} {
		play("progress of", name, `"x":1`, newPeer())
		if m := p.next(t, mcp.NotificationProgress); string(m.Params) != `{"progressToken":1,"progress":1,"message":"`+name+`"}` {
			t.Errorf("%s heard %s", name, m.Params)
		}
		play("release", name, `"x":1`, newPeer())
	}
	held.Wait()
	if len(one.notes)+len(two.notes) > 0 {
		t.Error("somebody heard more")
	}
}
