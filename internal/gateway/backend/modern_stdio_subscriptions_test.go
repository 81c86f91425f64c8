package backend

import (
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A client hears of what its acknowledgement names, and of nothing that only others'
// do, although all have one subscription at the server.
func TestWhatIsNotHonoredIsNotHeardOf(t *testing.T) {
	h := newSubscriptions(nil)
	up := &upstream{subscriptions: h, acked: make(chan struct{})}
	member := func(wants filter) *peer {
		p := newPeer()
		h.members[&subscriber{
			exchange: &exchange.Exchange{Request: &mcp.Message{ID: mcp.IntID(1)}}, wants: wants, line: &leash{peer: p},
		}] = struct{}{}
		return p
	}
	all := member(filter{ResourceSubscriptions: []string{"a:"}, PromptsListChanged: true})
	one := member(filter{ResourceSubscriptions: []string{"a:b"}})
	up.Notify(&mcp.Message{Method: mcp.NotificationSubscribed, Params: json.RawMessage(`{"notifications":{"resourceSubscriptions":["a:b"]}}`)})
	for p, want := range map[*peer]string{all: `{}`, one: `{"resourceSubscriptions":["a:b"]}`} {
		got, _, err := mcp.Lookup(p.next(t, mcp.NotificationSubscribed).Params, "notifications")
		if err != nil || string(got) != want {
			t.Errorf("acknowledged %s, want %s", got, want)
		}
	}
	up.Notify(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"a:b"}`)})
	up.Notify(&mcp.Message{Method: mcp.NotificationPromptsChanged})
	if len(one.notes) != 1 {
		t.Errorf("who watches it heard %d", len(one.notes))
	}
	if len(all.notes) != 0 {
		t.Errorf("who was told that nothing is honored heard %s", (<-all.notes).Encode())
	}
}
