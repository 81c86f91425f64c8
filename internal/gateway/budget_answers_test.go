package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// What clients answer to a server that does not read is counted among what they sent,
// for as long as it is kept.
func TestBudget_AnswersOfClients(t *testing.T) {
	const size = mib
	b, answered, read := newFakeBackend(), make(chan int, 10), make(chan struct{})
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		asking, done := context.WithCancel(context.WithoutCancel(ctx)) // a backend's outlive the call
		a, err := x.Peer.Ask(asking, elicit)
		if err != nil {
			done()
			return nil, err
		}
		answered <- len(a.Result)
		go func() {
			<-read
			done()
		}()
		return mcp.NewResult(x.Request.ID, []byte(`{}`)), nil
	}
	large := `{"action":"accept","content":{"x":"` + strings.Repeat("x", size) + `"}}`
	holds := func(t *testing.T, g *Gateway, atLeast, below int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("what is counted to be %d to %d MiB", atLeast, below), func() bool {
			used := g.core.Inbound.Used() / size
			return used >= atLeast && used < below
		})
	}
	for _, row := range []struct {
		name   string
		change func(*Config)
		answer func(t *testing.T, c *wire)
	}{
		{"streamable", nil, func(t *testing.T, c *wire) {
			c.initialize(mcp.V20251125)
			e := c.stream("POST", "/mcp", req("1", "tools/call", "{}"))
			q := e.message()
			c.post(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":` + large + `}`)
			c.post(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":` + large + `}`) // answers nothing
			e.message()
		}},
		{"sse", sseMode, func(t *testing.T, c *wire) {
			e, endpoint := c.subscribe()
			c.send("POST", endpoint, initBody)
			e.message()
			c.send("POST", endpoint, req("1", "tools/call", "{}"))
			c.send("POST", endpoint, `{"jsonrpc":"2.0","id":`+e.message().ID.String()+`,"result":`+large+`}`)
			e.message()
		}},
		{"stateless", nil, func(t *testing.T, c *wire) {
			first := c.post(callThatAsks("1"), statelessHeaders("tools/call", "add")...).inputRequired(t)
			more := fmt.Sprintf(`"requestState":%q,"inputResponses":{"1":%s},`, first.RequestState, large)
			body := strings.Replace(callThatAsks("2"), `"name":`, more+`"name":`, 1)
			if a := c.post(body, statelessHeaders("tools/call", "add")...); a.code(t) != 0 {
				t.Fatalf("got %.200s", a.body)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, srv := serve(t, b, row.change, nil)
			row.answer(t, newWire(t, srv))
			if got := receive(t, "the answer", answered); got != len(large) {
				t.Fatalf("the answer has %d bytes, want %d", got, len(large))
			}
			eventually(t, "the calls to be over", func() bool { return g.core.Calls.Len() == 0 })
			holds(t, g, 1, 3)
			read <- struct{}{}
			holds(t, g, 0, 1)
		})
	}
}
