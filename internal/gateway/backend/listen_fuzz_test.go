package backend

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// acknowledged hears the first message of a subscription, and goes away with it.
type acknowledged struct {
	wire.NoPeer
	cancel context.CancelFunc
	heard  []*mcp.Message
}

func (a *acknowledged) Notify(m *mcp.Message) {
	a.heard = append(a.heard, m)
	a.cancel()
}

// Whatever a client asks to hear of (MCP 2026-07-28, subscriptions/listen): it is
// told of what it asked for and of nothing else, and many filters are put together
// and taken apart without a loss.
func FuzzSubscriptionFilter(f *testing.F) {
	f.Add([]byte(`{"toolsListChanged":true,"resourceSubscriptions":["a:b","a:b","c:d"]}`), []byte(`{"promptsListChanged":true}`))
	f.Add([]byte(`{"toolsListChanged":false,"resourcesListChanged":null,"resourceSubscriptions":[]}`), []byte(`{"resourceSubscriptions":["a:b"]}`))
	f.Add([]byte(`{"toolsListChanged":true,"toolsListChanged":false}`), []byte(`{"ToolsListChanged":true}`))
	f.Add([]byte(`{"resourceSubscriptions":["\ud800",null]}`), []byte(`{"resourceSubscriptions":"a"}`))
	f.Add([]byte(`{"resourceSubscriptions":{"a":1}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, one, other []byte) {
		if !json.Valid(one) || !json.Valid(other) {
			return
		}
		read := func(raw []byte) (subscribe.Filter, bool) {
			f, _, err := subscribe.ParseFilter(json.RawMessage(`{"notifications":` + string(raw) + `}`))
			return f, err == nil
		}
		v, ok := read(one)
		w, also := read(other)
		asked := listenTo(t, one)
		if !ok || !also {
			if !ok && asked != nil {
				t.Fatalf("%s is acknowledged", one)
			}
			return
		}
		if again, ok := read(v.JSON()); !ok || !again.Equal(&v) {
			t.Fatalf("%s is written as %s", one, v.JSON())
		}
		both, shared, twice := subscribe.Union(v, w), v.Intersection(w), subscribe.Union(v, v)
		if !both.Includes(v) || !both.Includes(w) || !v.Includes(shared) || !w.Includes(shared) || !twice.Includes(v) || !v.Includes(twice) {
			t.Fatalf("%s and %s: union %s, common %s", one, other, both.JSON(), shared.JSON())
		}
		for _, uri := range both.ResourceSubscriptions {
			if !slices.Contains(v.ResourceSubscriptions, uri) && !slices.Contains(w.ResourceSubscriptions, uri) {
				t.Fatalf("nobody asked for %q", uri)
			}
		}
		if len(v.ResourceSubscriptions) > subscribe.MaxResources {
			if asked != nil {
				t.Fatalf("%d resources", len(v.ResourceSubscriptions))
			}
			return
		}
		if asked == nil {
			t.Fatalf("%s is refused", one)
		}
		want := v
		want.ResourceSubscriptions = slices.Compact(slices.Sorted(slices.Values(v.ResourceSubscriptions)))
		slices.Sort(asked.ResourceSubscriptions)
		if diff := cmp.Diff(want, *asked, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: %s", one, diff)
		}
	})
}

// listenTo is what of notifications is acknowledged where the server can do all
// of it; nil when they are refused.
func listenTo(t *testing.T, notifications json.RawMessage) *subscribe.Filter {
	t.Helper()
	s := &sessionServer{capabilities: `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`}
	b := newBridge(endpoints{sessions: s}, true, backendtest.TestLog())
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	peer := &acknowledged{cancel: cancel}
	m, err := b.Do(ctx, &exchange.Exchange{
		Client:  &exchange.Client{Version: mcp.V20260728, Capabilities: json.RawMessage(`{}`)},
		Request: &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodSubscriptionsListen, Params: json.RawMessage(`{"notifications":` + string(notifications) + `}`)},
		Peer:    peer,
	})
	if len(peer.heard) == 0 {
		if err == nil && (m == nil || m.Error == nil) {
			t.Fatalf("%s: neither an acknowledgement nor an error", notifications)
		}
		return nil
	}
	raw, _, err := mcp.Lookup(peer.heard[0].Params, "notifications")
	var honoured subscribe.Filter
	if err != nil || peer.heard[0].Method != mcp.NotificationSubscribed || json.Unmarshal(raw, &honoured) != nil {
		t.Fatalf("%s is acknowledged with %s, %v", notifications, peer.heard[0].Encode(), err)
	}
	return &honoured
}
