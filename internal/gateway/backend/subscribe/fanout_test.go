package subscribe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func updated(uri string) *mcp.Message {
	return &mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"` + uri + `"}`)}
}

// received returns what the peer received, each message as its method and its uri.
func received(p *backendtest.Peer) (all []string) {
	for len(p.Notes) > 0 {
		m := <-p.Notes
		uri, _, _ := mcp.LookupString(m.Params, "uri")
		all = append(all, strings.TrimSpace(strings.TrimPrefix(m.Method, "notifications/")+" "+uri))
	}
	return all
}

// A change is passed to the subscriptions whose filter matches.
func TestFanout_Notify(t *testing.T) {
	t.Parallel()
	var f Fanout[string]
	peers := map[string]*backendtest.Peer{}
	for name, filter := range map[string]Filter{
		"none":      {},
		"tools":     {ToolsListChanged: true},
		"resource":  {ResourceSubscriptions: []string{"a:b"}},
		"the whole": {ResourceSubscriptions: []string{"a:"}, PromptsListChanged: true},
	} {
		peers[name] = backendtest.NewPeer()
		f.AddSession(name, peers[name], filter)
	}
	want := map[string][]string{
		"none":      nil,
		"tools":     {"tools/list_changed"},
		"resource":  {"resources/updated a:b"},
		"the whole": {"prompts/list_changed", "resources/updated a:b", "resources/updated a:c"},
	}
	for _, m := range []*mcp.Message{{Method: mcp.NotificationToolsChanged}, {Method: mcp.NotificationPromptsChanged}, updated("a:b"), updated("a:c"), updated("z:")} {
		f.Notify(m)
	}
	for name, p := range peers {
		if diff := cmp.Diff(want[name], received(p)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff(Filter{ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"a:", "a:b"}}, f.Union()); diff != "" {
		t.Error(diff)
	}
}

// Before the acknowledgement, changes are kept up to a bound. After it, the client receives
// those that the server honors, with its own subscription id.
func TestFanout_Acknowledge(t *testing.T) {
	t.Parallel()
	var f Fanout[struct{}]
	p := backendtest.NewPeer()
	s, err := f.AddListen(struct{}{}, p, mcp.StringID("mine"), Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"a:b"}})
	if err != nil {
		t.Fatal(err)
	}
	f.Notify(&mcp.Message{Method: mcp.NotificationToolsChanged})
	for range 2 * maxWaiting {
		f.Notify(updated("a:b"))
	}
	if len(p.Notes) > 0 || s.Acknowledged() {
		t.Fatal("notifications are sent before the acknowledgement")
	}
	s.Acknowledge(json.RawMessage(`{"_meta":{"`+mcp.MetaSubscription+`":7}}`), Filter{ResourceSubscriptions: []string{"a:b", "z:"}})
	first := p.Next(t, mcp.NotificationSubscribed)
	if got, want := string(first.Params), `{"notifications":{"resourceSubscriptions":["a:b"]},"_meta":{"`+mcp.MetaSubscription+`":"mine"}}`; got != want {
		t.Errorf("acknowledged with %s, want %s", got, want)
	}
	if n := len(p.Notes); n != maxWaiting-1 { // one was kept for the tools, which are not honored
		t.Errorf("%d notifications were kept, want %d", n, maxWaiting-1)
	}
	received(p)
	f.Notify(&mcp.Message{Method: mcp.NotificationToolsChanged})
	f.Notify(updated("a:b/c"))
	s.Refresh(Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"a:b"}})
	if diff := cmp.Diff([]string{"resources/updated a:b/c", "resources/updated a:b"}, received(p)); diff != "" {
		t.Error(diff)
	}
	if !f.Remove(s) {
		t.Error("a subscription is left")
	}
	f.Notify(updated("a:b"))
	if got := received(p); got != nil {
		t.Errorf("a removed subscription received %v", got)
	}
}

// grouped is a peer in a group.
type grouped struct{ *backendtest.Peer }

func (grouped) Group() any { return "one group" }

func TestFanout_GroupReceivesAChangeOnce(t *testing.T) {
	t.Parallel()
	var f Fanout[struct{}]
	p := grouped{backendtest.NewPeer()}
	for _, filter := range []Filter{{ToolsListChanged: true}, {ToolsListChanged: true}, {PromptsListChanged: true}} {
		f.AddSession(struct{}{}, p, filter)
	}
	f.Notify(&mcp.Message{Method: mcp.NotificationToolsChanged})
	f.Notify(&mcp.Message{Method: mcp.NotificationPromptsChanged})
	if diff := cmp.Diff([]string{"tools/list_changed", "prompts/list_changed"}, received(p.Peer)); diff != "" {
		t.Error(diff)
	}
}

func TestFanout_ResourcesAreBounded(t *testing.T) {
	t.Parallel()
	var f Fanout[struct{}]
	uris := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("a:", i))
		}
		return all
	}
	if _, err := f.AddListen(struct{}{}, nil, mcp.IntID(1), Filter{ResourceSubscriptions: uris(MaxWatched - 1)}); err != nil {
		t.Fatal(err)
	}
	s := f.AddSession(struct{}{}, nil, Filter{})
	add := func(n int) error {
		return s.Change(func(f *Filter) error {
			f.ResourceSubscriptions = append(f.ResourceSubscriptions, uris(n)...)
			return nil
		})
	}
	if err := add(2); backendtest.CodeOf(err) != mcp.CodeInvalidParams {
		t.Errorf("too many resources: %v", err)
	}
	if err := add(1); err != nil || len(s.Requested().ResourceSubscriptions) != 1 {
		t.Errorf("the last resource: %v, %v", err, s.Requested())
	}
	if _, err := f.AddListen(struct{}{}, nil, mcp.IntID(2), Filter{ResourceSubscriptions: uris(1)}); backendtest.CodeOf(err) != mcp.CodeInvalidParams {
		t.Errorf("a further subscription: %v", err)
	}
	if _, err := f.AddListen(struct{}{}, nil, mcp.IntID(3), Filter{ToolsListChanged: true}); err != nil {
		t.Errorf("a subscription without resources: %v", err)
	}
}
