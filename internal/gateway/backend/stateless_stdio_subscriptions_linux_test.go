package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestStdioStateless_Subscriptions(t *testing.T) {
	t.Parallel()
	t.Run("each client receives its own, with its own id", func(t *testing.T) {
		t.Parallel()
		_, m := modernSite(t, stdio.Config{}, "modern")
		ctx, cancel := context.WithCancel(backendtest.TestContext(t))
		defer cancel()
		ids := []mcp.ID{mcp.IntID(1), mcp.StringID("1"), mcp.IntID(1)} // of three clients
		var peers []*backendtest.Peer
		var dones []<-chan backendtest.Outcome
		for _, id := range ids {
			p, done := listen(ctx, t, m, id)
			peers, dones = append(peers, p), append(dones, done)
		}
		for range 3 {
			askModern(t, m, "changed for all", "")
			askModern(t, m, "changed for unknown subscriptions", "")
			askModern(t, m, "changed", "") // without a mark, as mcp-go's: of whatever is subscribed to
			askModern(t, m, "updated", "") // without a subscription
		}
		for i, p := range peers {
			for range 6 {
				mustBelong(t, p.Next(t, mcp.NotificationToolsChanged).Params, ids[i])
			}
			if len(p.Notes) > 0 {
				t.Errorf("subscription %d also received %s", i, (<-p.Notes).Params)
			}
		}
		cancel()
		for _, done := range dones {
			if _, err := backendtest.Wait(t, done); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		backendtest.Eventually(t, "the server receives the end", func() bool {
			return strings.Count(askModern(t, m, "cancelled", ""), "requestId") == 1
		})
	})
	for _, way := range []string{"result", "notification"} {
		t.Run("the server ends them by "+way, func(t *testing.T) {
			t.Parallel()
			_, m := modernSite(t, stdio.Config{}, "modern")
			_, a := listen(backendtest.TestContext(t), t, m, mcp.IntID(9))
			_, b := listen(backendtest.TestContext(t), t, m, mcp.StringID("b"))
			askModern(t, m, "end subscriptions", way)
			for id, done := range map[mcp.ID]<-chan backendtest.Outcome{mcp.IntID(9): a, mcp.StringID("b"): b} {
				answer, err := backendtest.Wait(t, done)
				if err != nil || answer.Error != nil || answer.ID != id {
					t.Fatalf("%v, %v", answer, err)
				}
				mustBelong(t, answer.Result, id)
				if kind, _, _ := mcp.LookupString(answer.Result, "resultType"); kind != mcp.ResultComplete {
					t.Errorf("resultType %q", kind)
				}
			}
			if got := askModern(t, m, "cancelled", ""); got != "" {
				t.Errorf("a subscription that the server ended was cancelled: %s", got)
			}
		})
	}
}

// What several subscribe to is one subscription at the server: the official
// SDK's knows only one on a stdio line.
func TestStdioStateless_SubscriptionsAreCombined(t *testing.T) {
	t.Parallel()
	_, m := modernSite(t, stdio.Config{}, "fixture")
	subscribe := func(ctx context.Context, id mcp.ID, filter string) (*backendtest.Peer, <-chan backendtest.Outcome) {
		p := backendtest.NewPeer()
		done := beginModern(ctx, m, modernExchange(backendtest.Request(id, mcp.MethodSubscriptionsListen, `{"notifications":`+filter+`}`), p))
		ack := p.Next(t, mcp.NotificationSubscribed)
		mustBelong(t, ack.Params, id)
		raw, _, _ := mcp.Lookup(ack.Params, "notifications")
		if want := `{"toolsListChanged":true}`; string(raw) != want { // it has no resources
			t.Errorf("acknowledged %s, want %s", raw, want)
		}
		return p, done
	}
	grow := func() {
		t.Helper()
		if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(1), "grow", `{}`), nil))); got != "grown" {
			t.Error(got)
		}
	}
	ctxA, endA := context.WithCancel(backendtest.TestContext(t))
	a, doneA := subscribe(ctxA, mcp.StringID("a"), `{"toolsListChanged":true}`)
	ctxB, endB := context.WithCancel(backendtest.TestContext(t))
	defer endB()
	b, doneB := subscribe(ctxB, mcp.StringID("b"), `{"toolsListChanged":true}`)
	grow()
	for id, p := range map[string]*backendtest.Peer{"a": a, "b": b} {
		mustBelong(t, p.Next(t, mcp.NotificationToolsChanged).Params, mcp.StringID(id))
	}
	endA() // the other one's goes on
	_, _ = backendtest.Wait(t, doneA)
	grow()
	mustBelong(t, b.Next(t, mcp.NotificationToolsChanged).Params, mcp.StringID("b"))
	if len(a.Notes) > 0 {
		t.Errorf("a removed subscription received %s", (<-a.Notes).Params)
	}
	// A client requests more: the subscription is replaced, and changes that may have been
	// lost are sent.
	ctxC, endC := context.WithCancel(backendtest.TestContext(t))
	defer endC()
	c, doneC := subscribe(ctxC, mcp.IntID(3), `{"resourceSubscriptions":["a:b"],"toolsListChanged":true}`)
	mustBelong(t, b.Next(t, mcp.NotificationToolsChanged).Params, mcp.StringID("b"))
	grow()
	mustBelong(t, b.Next(t, mcp.NotificationToolsChanged).Params, mcp.StringID("b"))
	mustBelong(t, c.Next(t, mcp.NotificationToolsChanged).Params, mcp.IntID(3))
	endB()
	endC()
	_, _ = backendtest.Wait(t, doneB)
	_, _ = backendtest.Wait(t, doneC)
	// And again from the beginning.
	ctxD, endD := context.WithCancel(backendtest.TestContext(t))
	d, doneD := subscribe(ctxD, mcp.IntID(4), `{"toolsListChanged":true}`)
	grow()
	mustBelong(t, d.Next(t, mcp.NotificationToolsChanged).Params, mcp.IntID(4))
	endD()
	_, _ = backendtest.Wait(t, doneD)
}

// One client's subscription that does not come about costs the others nothing: they
// share one at the server, which is replaced for it.
func TestStdioStateless_SubscriptionsOutliveOneThatFails(t *testing.T) {
	t.Parallel()
	more := func() *exchange.Exchange {
		return modernExchange(backendtest.Request(mcp.IntID(2), mcp.MethodSubscriptionsListen,
			`{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`), backendtest.NewPeer())
	}
	receives := func(t *testing.T, m wire.Stateless, p *backendtest.Peer) {
		t.Helper()
		for len(p.Notes) > 0 {
			<-p.Notes
		}
		askModern(t, m, "changed for all", "")
		p.Next(t, mcp.NotificationToolsChanged)
	}
	t.Run("because it cannot be understood", func(t *testing.T) {
		t.Parallel()
		_, m := modernSite(t, stdio.Config{}, "modern")
		p, _ := listen(backendtest.TestContext(t), t, m, mcp.IntID(1))
		x := more()
		var err error
		if x.Request.Params, err = mcp.Set(x.Request.Params, json.RawMessage(`1`), "notifications", "toolsListChanged"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Do(backendtest.TestContext(t), x); backendtest.CodeOf(err) != mcp.CodeInvalidParams {
			t.Error(err)
		}
		receives(t, m, p)
	})
	t.Run("because the server does not want it, after a while", func(t *testing.T) {
		t.Parallel()
		_, m := modernSite(t, stdio.Config{}, "modern")
		p, _ := listen(backendtest.TestContext(t), t, m, mcp.IntID(1))
		done := beginModern(backendtest.TestContext(t), m, modernExchange(backendtest.Request(mcp.IntID(2), mcp.MethodSubscriptionsListen,
			`{"notifications":{"resourceSubscriptions":["a:unwanted"]}}`), backendtest.NewPeer()))
		backendtest.Eventually(t, "the server has it", func() bool { return askModern(t, m, "holds", "a:unwanted") != "nothing" })
		time.Sleep(750 * time.Millisecond) // as long as it would have been waited for
		askModern(t, m, "refuse", "a:unwanted")
		if answer, err := backendtest.Wait(t, done); err != nil || answer.Error == nil {
			t.Error(answer, err)
		}
		receives(t, m, p)
	})
	t.Run("because its client goes away", func(t *testing.T) {
		t.Parallel()
		_, m := modernSite(t, stdio.Config{}, "modern")
		p, _ := listen(backendtest.TestContext(t), t, m, mcp.IntID(1))
		for i := range 10 {
			before := strings.Count(askModern(t, m, "cancelled", ""), "requestId")
			ctx, cancel := context.WithCancel(backendtest.TestContext(t))
			done := beginModern(ctx, m, modernExchange(backendtest.Request(mcp.IntID(2), mcp.MethodSubscriptionsListen,
				fmt.Sprintf(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:%d"]}}`, i)), backendtest.NewPeer()))
			backendtest.Eventually(t, "the one before is cancelled", func() bool {
				return strings.Count(askModern(t, m, "cancelled", ""), "requestId") > before
			})
			cancel()
			_, _ = backendtest.Wait(t, done)
			receives(t, m, p)
		}
	})
}
