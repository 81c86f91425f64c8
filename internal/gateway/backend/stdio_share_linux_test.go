package backend

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestStdio_SharingOfProcesses(t *testing.T) {
	t.Parallel()
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
		{"another principal", plain(), with(func(c *exchange.Client) { c.Principal = "another" }), false},
		{"another version", plain(), with(func(c *exchange.Client) { c.Version = mcp.V20250618 }), false},
		{"other capabilities", plain(), declares(`{"experimental":{}}`), false},
		{"other numbers", declares(`{"experimental":{"a":{"n":1}}}`), declares(`{"experimental":{"a":{"n":1.0}}}`), false},
		{"both can sample", declares(`{"sampling":{}}`), declares(`{"sampling":{}}`), false},
		{"both elicit", declares(`{"elicitation":{}}`), declares(`{"elicitation":{}}`), false},
		{"both have roots", declares(`{"roots":{}}`), declares(`{"roots":{}}`), false},
	}
	_, b := crudeBackend(t, stdio.Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, second := openAs(t, b, tt.first, backendtest.NewPeer()), openAs(t, b, tt.second, backendtest.NewPeer())
			if share := ask(t, first, "pid", "") == ask(t, second, "pid", ""); share != tt.share {
				t.Errorf("they share: %v, want %v", share, tt.share)
			}
		})
	}
}

func TestStdio_AmbiguousCapabilitiesAreRejected(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{})
	for _, capabilities := range []string{`{"roots":{},"roots":null}`, `{"Sampling":{}}`, `[]`, `null`, `"x"`} {
		c := plain()
		c.Capabilities = json.RawMessage(capabilities)
		if _, err := b.Open(backendtest.TestContext(t), c, backendtest.NewPeer()); backendtest.CodeOf(err) != mcp.CodeInvalidParams {
			t.Errorf("%s: %v", capabilities, err)
		}
	}
	s.eventually(t, 0)
}

func TestStdio_SessionWithTasksMoves(t *testing.T) {
	t.Parallel()
	for _, m := range []*mcp.Message{
		backendtest.Request(mcp.IntID(1), "tasks/list", `{}`),
		backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"echo","arguments":{},"task":{"ttl":1000}}`),
	} {
		t.Run(m.Method, func(t *testing.T) {
			t.Parallel()
			s, b := crudeBackend(t, stdio.Config{})
			peerA := backendtest.NewPeer()
			a, other := openAs(t, b, plain(), peerA), openAs(t, b, plain(), backendtest.NewPeer())
			held, _ := hold(backendtest.TestContext(t), t, a, "before", backendtest.NewPeer())
			before := ask(t, other, "pid", "")
			var wg sync.WaitGroup
			for range 5 { // moved once, however many ask
				wg.Go(func() {
					if answer, err := a.Do(backendtest.TestContext(t), backendtest.ExchangeOf(m, backendtest.NewPeer())); err != nil || answer.Error != nil {
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
			if got := backendtest.Text(backendtest.Wait(t, held)); got != "before" {
				t.Error(got)
			}
			s.eventually(t, 2)
			// Its own process speaks to it alone, and dies with it alone.
			ask(t, a, "changed", "")
			_ = other.Close()
			s.eventually(t, 1)
			mustLive(t, a)
			if got := backendtest.Text(a.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("die", ""), backendtest.NewPeer()))); !strings.Contains(got, "exit status 3") {
				t.Error(got)
			}
			mustEnd(t, a)
			s.eventually(t, 0)
		})
	}
}

func TestStdio_SharedProcessSeparatesSessions(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	sessionA, sessionB := backendtest.NewPeer(), backendtest.NewPeer()
	a, c := openAs(t, b, plain(), sessionA), openAs(t, b, plain(), sessionB)
	ctx := backendtest.TestContext(t)
	holdA, holdB := backendtest.NewPeer(), backendtest.NewPeer()
	doneA, _ := hold(ctx, t, a, "A", holdA)
	doneB, _ := hold(ctx, t, c, "B", holdB)

	ask(t, c, "made up progress", "") // 1 may be the token of a request
	for len(holdA.Notes) > 0 {
		<-holdA.Notes
	}
	for len(holdB.Notes) > 0 {
		<-holdB.Notes
	}
	ask(t, c, "progress of", "A")
	ask(t, a, "progress of", "B")
	for name, p := range map[string]*backendtest.Peer{"A": holdA, "B": holdB} {
		if len(p.Notes) != 1 {
			t.Fatalf("%s received %d progress notifications", name, len(p.Notes))
		}
		n := <-p.Notes
		token, _, _ := mcp.Lookup(n.Params, "progressToken")
		message, _, _ := mcp.LookupString(n.Params, "message")
		if string(token) != `"same"` || message != name {
			t.Errorf("%s received %s", name, n.Params)
		}
	}
	// Several are in flight: whose is a log message?
	caller := backendtest.NewPeer()
	if got := backendtest.Text(a.Do(ctx, backendtest.ExchangeOf(tool("log", "secret of A"), caller))); got != "logged" {
		t.Fatal(got)
	}
	ask(t, a, "updated", "")
	ask(t, a, "release", "A")
	ask(t, a, "release", "B")
	if got := backendtest.Text(backendtest.Wait(t, doneA)) + backendtest.Text(backendtest.Wait(t, doneB)); got != "AB" {
		t.Error(got)
	}
	// Exactly one: it is that one's.
	if got := backendtest.Text(a.Do(ctx, backendtest.ExchangeOf(tool("log", "of the only one"), caller))); got != "logged" {
		t.Fatal(got)
	}
	if n := caller.Next(t, mcp.NotificationMessage); !strings.Contains(string(n.Params), "of the only one") {
		t.Errorf("received %s", n.Params)
	}
	// The list is everybody's.
	ask(t, a, "changed", "")
	for name, p := range map[string]*backendtest.Peer{"A": sessionA, "B": sessionB} {
		p.Next(t, mcp.NotificationToolsChanged)
		if len(p.Notes) > 0 {
			t.Errorf("session %s also received %s", name, (<-p.Notes).Encode())
		}
	}
	for name, p := range map[string]*backendtest.Peer{"A": holdA, "B": holdB, "caller": caller} {
		if len(p.Notes) > 0 {
			t.Errorf("%s also received %s", name, (<-p.Notes).Encode())
		}
	}
}

// A cancelled request is still one the server may speak about.
func TestStdio_SharedProcessKeepsCancelledRequests(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	a, c := openAs(t, b, plain(), backendtest.NewPeer()), openAs(t, b, plain(), backendtest.NewPeer())
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	gone, _ := hold(ctx, t, a, "gone", backendtest.NewPeer())
	cancel()
	if _, err := backendtest.Wait(t, gone); err == nil {
		t.Fatal("a cancelled call was answered")
	}
	other := backendtest.NewPeer()
	if got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("log", "perhaps about the cancelled one"), other))); got != "logged" {
		t.Fatal(got)
	}
	if len(other.Notes) > 0 {
		t.Errorf("another session received %s", (<-other.Notes).Encode())
	}
	ask(t, c, "release", "gone") // answered: now it is over
	if got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("log", "mine"), other))); got != "logged" {
		t.Fatal(got)
	}
	other.Next(t, mcp.NotificationMessage)
}

func TestStdio_SharedProcessCannotSendRequests(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	p := backendtest.NewPeer()
	p.Answer = func(context.Context, *mcp.Message) (*mcp.Message, error) {
		t.Error("the client was asked")
		return nil, nil
	}
	for _, method := range []string{mcp.MethodSampling, mcp.MethodElicitation, mcp.MethodRootsList, "x/y"} {
		got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("ask", method), p)))
		if !strings.Contains(got, `"id":"question `+method+`"`) || !strings.Contains(got, "-32601") || !strings.Contains(got, "did not declare") {
			t.Errorf("%s is answered %s", method, got)
		}
	}
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("ask", mcp.MethodPing), p))); got != `{"jsonrpc":"2.0","id":"question ping","result":{}}` {
		t.Errorf("ping is answered %s", got)
	}
}

func TestStdio_OwnProcessSendsRequests(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	session := backendtest.Answering(map[string]string{mcp.MethodSampling: `{"from":"the session"}`})
	conn := openAs(t, b, backendtest.FullClient(), session)
	caller := backendtest.Answering(map[string]string{mcp.MethodSampling: `{"from":"the caller"}`})
	got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("ask", mcp.MethodSampling), caller)))
	if got != `{"jsonrpc":"2.0","id":"question sampling/createMessage","result":{"from":"the caller"}}` {
		t.Errorf("one call in flight: %s", got)
	}
	held, _ := hold(backendtest.TestContext(t), t, conn, "x", backendtest.NewPeer())
	got = backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("ask", mcp.MethodSampling), caller)))
	if !strings.Contains(got, "the session") {
		t.Errorf("several in flight: %s", got)
	}
	ask(t, conn, "release", "x")
	backendtest.Wait(t, held)

	// A question that the server takes back is taken back from the client.
	taken := make(chan struct{})
	caller.Answer = func(ctx context.Context, _ *mcp.Message) (*mcp.Message, error) {
		<-ctx.Done()
		close(taken)
		return nil, ctx.Err()
	}
	session.Answer = caller.Answer
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("take back", ""), caller))); got != "taken back" {
		t.Error(got)
	}
	select {
	case <-taken:
	case <-time.After(backendtest.Patience):
		t.Error("the client still has the question")
	}
	if got := ask(t, conn, "echo", "and nothing was answered"); got != "and nothing was answered" {
		t.Error(got)
	}
}

func TestStdio_SharedProcessEndsAfterItsLastSession(t *testing.T) {
	t.Parallel()
	const linger = time.Second
	s, b := crudeBackend(t, stdio.Config{Linger: linger})
	a, c := openAs(t, b, plain(), backendtest.NewPeer()), openAs(t, b, plain(), backendtest.NewPeer())
	pid := ask(t, a, "pid", "")
	held, _ := hold(backendtest.TestContext(t), t, a, "x", backendtest.NewPeer())
	a.Close()
	if got := backendtest.Text(backendtest.Wait(t, held)); !strings.Contains(got, "session was closed") {
		t.Errorf("a call of a closed session: %s", got)
	}
	mustEnd(t, a)
	if got := backendtest.Text(a.Do(backendtest.TestContext(t), backendtest.ExchangeOf(tool("echo", ""), backendtest.NewPeer()))); !strings.Contains(got, "session was closed") {
		t.Errorf("a call on a closed session: %s", got)
	}
	mustLive(t, c)
	closed := time.Now()
	c.Close()
	again := openAs(t, b, plain(), backendtest.NewPeer()) // it lingers
	if got := ask(t, again, "pid", ""); got != pid && time.Since(closed) < linger {
		t.Errorf("another process, %s instead of %s", got, pid)
	}
	time.Sleep(linger + linger/4) // longer than the linger of before
	mustLive(t, again)
	again.Close()
	s.eventually(t, 0)
	if got := ask(t, openAs(t, b, plain(), backendtest.NewPeer()), "pid", ""); got == pid {
		t.Error("the process of before answers")
	}
}

func TestStdio_ManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	s, b := crudeBackend(t, stdio.Config{})
	first, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // the one that starts the process gives up
		close(started)
		conn, err := b.Open(first, plain(), backendtest.NewPeer())
		if err == nil {
			conn.Close()
		}
	})
	<-started
	for range 20 {
		wg.Go(func() {
			conn, err := b.Open(backendtest.TestContext(t), plain(), backendtest.NewPeer())
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
// because one of them requests log messages.
func TestStdio_ProgressTokensOfStatelessClients(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	play := func(tool, args, meta string, p *backendtest.Peer) {
		x := statelessRequest(mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{"is":"`+args+`"}`, `{}`, p)
		var err error
		if x.Request.Params, err = mcp.Insert(x.Request.Params, []byte(meta), "_meta"); err == nil {
			x.Meta = backendtest.MetaOf(x.Request)
			_, err = b.Do(backendtest.TestContext(t), x)
		}
		if err != nil {
			t.Error(err)
		}
	}
	play("echo", "", `"`+mcp.MetaLogLevel+`":"info"`, backendtest.NewPeer())
	one, two := backendtest.NewPeer(), backendtest.NewPeer()
	var held sync.WaitGroup
	for name, p := range map[string]*backendtest.Peer{"one": one, "two": two} {
		held.Go(func() { play("hold", name, `"progressToken":1`, p) })
		backendtest.Eventually(t, "it is held", func() bool {
			return backendtest.Text(b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"holds","arguments":{"is":"`+name+`"}`, `{}`, backendtest.NewPeer()))) != "nothing"
		})
	}
	for name, p := range map[string]*backendtest.Peer{"one": one, "two": two} {
		play("progress of", name, `"x":1`, backendtest.NewPeer())
		if m := p.Next(t, mcp.NotificationProgress); string(m.Params) != `{"progressToken":1,"progress":1,"message":"`+name+`"}` {
			t.Errorf("%s received %s", name, m.Params)
		}
		play("release", name, `"x":1`, backendtest.NewPeer())
	}
	held.Wait()
	if len(one.Notes)+len(two.Notes) > 0 {
		t.Error("further messages were received")
	}
}
