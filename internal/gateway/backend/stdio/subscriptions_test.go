package stdio

import (
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A client hears of what its acknowledgement names, and of nothing that only others'
// do, although all have one subscription at the server.
func TestWhatIsNotHonoredIsNotHeardOf(t *testing.T) {
	h := newSubscriptions(nil)
	up := &upstream{subscriptions: h, acked: make(chan struct{})}
	member := func(wants wire.Filter) *backendtest.Peer {
		p := backendtest.NewPeer()
		h.members[&subscriber{
			exchange: &exchange.Exchange{Request: &mcp.Message{ID: mcp.IntID(1)}}, wants: wants, line: wire.NewCallPeer(p),
		}] = struct{}{}
		return p
	}
	all := member(wire.Filter{ResourceSubscriptions: []string{"a:"}, PromptsListChanged: true})
	one := member(wire.Filter{ResourceSubscriptions: []string{"a:b"}})
	up.Notify(&mcp.Message{Method: mcp.NotificationSubscribed, Params: json.RawMessage(`{"notifications":{"resourceSubscriptions":["a:b"]}}`)})
	for p, want := range map[*backendtest.Peer]string{all: `{}`, one: `{"resourceSubscriptions":["a:b"]}`} {
		got, _, err := mcp.Lookup(p.Next(t, mcp.NotificationSubscribed).Params, "notifications")
		if err != nil || string(got) != want {
			t.Errorf("acknowledged %s, want %s", got, want)
		}
	}
	up.Notify(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"a:b"}`)})
	up.Notify(&mcp.Message{Method: mcp.NotificationPromptsChanged})
	if len(one.Notes) != 1 {
		t.Errorf("who watches it heard %d", len(one.Notes))
	}
	if len(all.Notes) != 0 {
		t.Errorf("who was told that nothing is honored heard %s", (<-all.Notes).Encode())
	}
}
