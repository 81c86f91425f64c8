package stdio

import (
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A client receives what its acknowledgement contains, and nothing that only those of other
// clients contain, although all have one subscription at the server.
func TestListens_ClientsReceiveWhatIsHonored(t *testing.T) {
	t.Parallel()
	h := newListens(nil, nil, &pacer{})
	up := &upstream{listens: h, acked: make(chan struct{})}
	add := func(filter subscribe.Filter) *backendtest.Peer {
		p := backendtest.NewPeer()
		l := &listen{exchange: &exchange.Exchange{}}
		if _, err := h.fanout.AddListen(l, p, mcp.IntID(1), filter); err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := add(subscribe.Filter{ResourceSubscriptions: []string{"a:"}, PromptsListChanged: true})
	one := add(subscribe.Filter{ResourceSubscriptions: []string{"a:b"}})
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
		t.Errorf("the subscription to the resource received %d notifications", len(one.Notes))
	}
	if len(all.Notes) != 0 {
		t.Errorf("the subscription of which nothing is honored received %s", (<-all.Notes).Encode())
	}
}
