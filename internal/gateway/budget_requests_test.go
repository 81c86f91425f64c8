package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// askingDuringCalls is a server that sends its client a request of params.size bytes during
// a call, and echoes the params of any other request. results has the outcome of each
// question; what is sent on withdraw takes one back.
func askingDuringCalls() (b *fakeBackend, results chan error, withdraw chan struct{}) {
	b, results, withdraw = newFakeBackend(), make(chan error, 100), make(chan struct{})
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method != mcp.MethodToolsCall {
			return echo(x), nil
		}
		raw, _, err := mcp.Lookup(x.Request.Params, "size")
		size := 0
		if err == nil {
			err = json.Unmarshal(raw, &size)
		}
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answered := make(chan struct{})
		go func() {
			select {
			case <-withdraw:
				cancel()
			case <-answered:
			}
		}()
		_, err = x.Peer.Ask(ctx, largeQuestion(size))
		close(answered)
		results <- err
		if err != nil {
			return nil, err
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
	}
	return b, results, withdraw
}

func largeQuestion(size int) *mcp.Message {
	return &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodElicitation, Params: json.RawMessage(`{"message":"` + strings.Repeat("x", size) + `"}`)}
}

// calling is the params of a call during which so much is asked.
func calling(size int) string { return fmt.Sprintf(`{"name":"add","size":%d}`, size) }

func TestBudget_RequestsOfServers(t *testing.T) {
	const size = mib
	// Two have room, and then small ones only.
	limited := func(t *testing.T, hurry func(*httpd.Timing)) (g *Gateway, c *wire, b *fakeBackend, results chan error, withdraw chan struct{}) {
		b, results, withdraw = askingDuringCalls()
		g, srv := serve(t, b, nil, hurry)
		g.core.Held.Max = 5 * size // half of it for requests of servers
		return g, newWire(t, srv), b, results, withdraw
	}
	refused := func(t *testing.T, results chan error) {
		t.Helper()
		if err := receive(t, "the refusal", results); !errors.Is(err, httpd.ErrAskRoom) {
			t.Errorf("the server received %v", err)
		}
	}
	// A request that was answered cannot be cancelled any more.
	answered := func(t *testing.T, results chan error) {
		t.Helper()
		if err := receive(t, "the answer", results); err != nil {
			t.Errorf("the server received %v", err)
		}
	}
	given := func(t *testing.T, g *Gateway, left int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d questions to be left", left), func() bool { return g.core.Held.Used()/size == left })
	}

	t.Run("of requests of a session", func(t *testing.T) {
		g, c, _, results, withdraw := limited(t, nil)
		c.initialize(mcp.V20251125)
		first := c.stream("POST", "/mcp", req("1", "tools/call", calling(size)))
		q := first.message()
		second := c.stream("POST", "/mcp", req("2", "tools/call", calling(size)))
		second.message()
		if a := c.post(req("3", "tools/call", calling(size))); !strings.Contains(a.body, httpd.ErrAskRoom.Message) {
			t.Errorf("a third got %.200s", a.body)
		}
		refused(t, results)
		small := c.stream("POST", "/mcp", req("4", "tools/call", calling(1)))
		if m := small.message(); m.Method != mcp.MethodElicitation {
			t.Errorf("a small one got %.200s", m.Encode())
		}
		if a := c.post(padded("5", "x", 2*size, "")); a.status != 200 || len(a.body) < 2*size {
			t.Errorf("a large answer: %d %.200s", a.status, a.body)
		}
		c.post(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":{}}`)
		answered(t, results)
		given(t, g, 1)
		withdraw <- struct{}{} // of two
		withdraw <- struct{}{}
		given(t, g, 0)
		third := c.stream("POST", "/mcp", req("6", "tools/call", calling(size)))
		third.message()
		given(t, g, 1)
		c.send("DELETE", "/mcp", "")
		given(t, g, 0)
	})
	t.Run("of a session", func(t *testing.T) {
		g, c, b, results, _ := limited(t, nil)
		c.initialize(mcp.V20251125)
		peer := receive(t, "the connection", b.conns).session
		ask := func(ctx context.Context) { _, err := peer.Ask(ctx, largeQuestion(size)); results <- err }
		// One waits for the stream that it could be put on.
		ctx, cancel := context.WithCancel(t.Context())
		go ask(ctx)
		given(t, g, 1)
		stream := c.listen()
		stream.message()
		go ask(ctx)
		stream.message()
		ask(ctx)
		refused(t, results)
		cancel()
		given(t, g, 0)
	})
	t.Run("of stateless calls", func(t *testing.T) {
		g, c, _, results, withdraw := limited(t, nil)
		post := func(id string, size int, more string) *answer {
			params := strings.TrimSuffix(calling(size), "}") + more + "," + statelessMeta(`"elicitation":{}`) + "}"
			return c.post(req(id, "tools/call", params), statelessHeaders("tools/call", "add")...)
		}
		first := post("1", size, "").inputRequired(t)
		post("2", size, "").inputRequired(t)
		if a := post("3", size, ""); !strings.Contains(a.body, httpd.ErrAskRoom.Message) {
			t.Errorf("a third got %.200s", a.body)
		}
		refused(t, results)
		post("4", 1, "").inputRequired(t)
		if a := post("5", size, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"1":{}}`, first.RequestState)); a.code(t) != 0 {
			t.Errorf("the answered one got %.200s", a.body)
		}
		answered(t, results)
		given(t, g, 1)
		g.stateless.Evict() // the second has waited longest
		if err := receive(t, "its end", results); err == nil || err.Error() != errAbandoned.Error() {
			t.Errorf("the server received %v", err)
		}
		given(t, g, 0)
		post("6", size, "").inputRequired(t)
		given(t, g, 1)
		withdraw <- struct{}{} // of two
		withdraw <- struct{}{}
		given(t, g, 0)
	})
	t.Run("and what is kept beside them", func(t *testing.T) {
		for name, change := range map[string]func(*Config){"streamable": nil, "sse": sseMode} {
			b, held, release := newFakeBackend(), make(chan error, 10), make(chan struct{})
			b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
				give, err := x.Peer.Hold(size)
				held <- err
				if err == nil {
					<-release
					give()
				}
				return echo(x), nil
			}
			g, srv := serve(t, b, change, nil)
			g.core.Held.Max = 5 * size // half of it for requests of servers
			c := newWire(t, srv)
			post := func(body string) { c.background(body) }
			if change == nil {
				c.initialize(mcp.V20251125)
			} else {
				e, endpoint := c.subscribe()
				c.send("POST", endpoint, initBody)
				e.message()
				post = func(body string) { c.send("POST", endpoint, body) }
			}
			for i, want := range []error{nil, nil, httpd.ErrAskRoom} {
				post(req(fmt.Sprint(i), "tools/call", "{}"))
				if err := receive(t, "what is held", held); !errors.Is(err, want) {
					t.Errorf("%s: %d: got %v, want %v", name, i, err, want)
				}
			}
			close(release)
			given(t, g, 0)
		}
	})
	t.Run("of a client that went away", func(t *testing.T) {
		g, c, _, results, _ := limited(t, func(p *httpd.Timing) { p.ComeBack = time.Millisecond })
		c.initialize(mcp.V20251125)
		e := c.stream("POST", "/mcp", req("1", "tools/call", calling(size)))
		e.message()
		given(t, g, 1)
		e.close()
		if err := receive(t, "the end", results); !errors.Is(err, httpd.ErrClientGone) {
			t.Errorf("got %v", err)
		}
		given(t, g, 0)
	})
}
