package backend

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// acknowledged hears the first message of a subscription, and goes away with it.
type acknowledged struct {
	noPeer
	cancel context.CancelFunc
	heard  []*mcp.Message
}

func (a *acknowledged) Notify(m *mcp.Message) {
	a.heard = append(a.heard, m)
	a.cancel()
}

// Whatever a client asks to hear of (MCP 2026-07-28, subscriptions/listen): it is
// told of what it asked for and of nothing else, by each of the two readers of a
// filter, and many filters are put together and taken apart without a loss.
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
		v, ok := wishesOf(one)
		w, also := wishesOf(other)
		asked := listenTo(t, one)
		if !ok || !also {
			return
		}
		if again, ok := wishesOf(v.filter()); !ok || !again.include(v) || !v.include(again) {
			t.Fatalf("%s is written as %s", one, v.filter())
		}
		both, shared := v.union(w), v.common(w)
		if !both.include(v) || !both.include(w) || !v.include(shared) || !w.include(shared) || !v.union(v).include(v) || !v.include(v.union(v)) {
			t.Fatalf("%s and %s: union %s, common %s", one, other, both.filter(), shared.filter())
		}
		for _, uri := range both.uris {
			if !slices.Contains(v.uris, uri) && !slices.Contains(w.uris, uri) {
				t.Fatalf("nobody asked for %q", uri)
			}
		}
		if len(v.uris) > maxSubscriptions {
			if asked != nil {
				t.Fatalf("%d resources", len(v.uris))
			}
			return
		}
		if asked == nil {
			t.Fatalf("%s is refused", one)
		}
		want := filter{ToolsListChanged: v.lists["toolsListChanged"], PromptsListChanged: v.lists["promptsListChanged"], ResourcesListChanged: v.lists["resourcesListChanged"]}
		uris := map[string]struct{}{}
		for _, uri := range v.uris {
			uris[uri] = struct{}{}
		}
		want.ResourceSubscriptions = slices.Sorted(maps.Keys(uris))
		slices.Sort(asked.ResourceSubscriptions)
		if diff := cmp.Diff(want, *asked, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: %s", one, diff)
		}
	})
}

// listenTo is what of notifications is acknowledged where the server can do all
// of it; nil when they are refused.
func listenTo(t *testing.T, notifications json.RawMessage) *filter {
	t.Helper()
	s := &sessionServer{capabilities: `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`}
	b := newBridge(s, nil, true, testLog())
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	peer := &acknowledged{cancel: cancel}
	m, err := b.Do(ctx, &gateway.Exchange{
		Client:  &gateway.Client{Version: mcp.V20260728, Capabilities: json.RawMessage(`{}`)},
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
	var honoured filter
	if err != nil || peer.heard[0].Method != mcp.NotificationSubscribed || json.Unmarshal(raw, &honoured) != nil {
		t.Fatalf("%s is acknowledged with %s, %v", notifications, peer.heard[0].Encode(), err)
	}
	return &honoured
}
