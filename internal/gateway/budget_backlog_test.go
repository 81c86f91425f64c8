package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Notifications that wait for clients are counted, and leave room for the responses to
// others.
func TestBudget_BacklogsLeaveRoomForResponses(t *testing.T) {
	b, resumed := newFakeBackend(), make(chan struct{})
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if !mcp.IsMultiRound(x.Request.Method) {
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{"x":"`+strings.Repeat("x", mib)+`"}`)), nil
		}
		asking, answered := context.WithCancel(context.WithoutCancel(ctx))
		defer answered()
		go func() {
			for asking.Err() == nil { // while the call waits, and as it goes on
				x.Peer.Notify(note("notifications/progress/x", `{"x":"`+strings.Repeat("x", 16<<10)+`"}`))
			}
		}()
		_, err := x.Peer.Ask(ctx, elicit)
		if err == nil {
			<-resumed
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), err
	}
	g, srv := serve(t, b, nil, nil)
	g.core.Held.Max = 4 * mib // half of it for notifications
	c := newWire(t, srv)
	state := ""
	for n := range 20 {
		a := c.post(callThatAsks(fmt.Sprint(n)), statelessHeaders("tools/call", "add")...)
		_, rest, found := strings.Cut(a.body, `"requestState":"`) // after some notifications
		if state, _, _ = strings.Cut(rest, `"`); !found {
			t.Fatalf("got %.300s", a.body)
		}
	}
	eventually(t, "the backlogs to be counted", func() bool { return g.core.Held.Used() > g.core.Held.Max/4 })
	if used, most := g.core.Held.Used(), g.core.Held.Max/2+mib/4; used > most {
		t.Errorf("backlogs hold %d bytes, want at most %d", used, most)
	}
	c.initialize(mcp.V20251125)
	for len(b.conns) > 1 { // of the calls
		<-b.conns
	}
	(<-b.conns).session.Notify(note("x", `{"x":"`+strings.Repeat("x", 8<<10)+`"}`)) // it has no stream
	if a := c.post(req("1", "large", "{}")); len(a.body) < mib {
		t.Errorf("an answer got %.200s", a.body)
	}
	// One is given up, one goes on, and the others end with the gateway.
	g.stateless.Evict()
	close(resumed)
	body := strings.Replace(callThatAsks("20"), `"name":`, fmt.Sprintf(`"requestState":%q,"inputResponses":{"1":{}},"name":`, state), 1)
	if a := c.post(body, statelessHeaders("tools/call", "add")...); !strings.Contains(a.body, `"result":{`) {
		t.Errorf("going on got %.300s ... %s", a.body, a.body[max(0, len(a.body)-300):])
	}
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all to be given back", func() bool { return g.core.Held.Used() == 0 })
}
