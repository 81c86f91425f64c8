package translate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// herald is a server that has subscriptions and nothing else.
type herald struct {
	t      *testing.T
	refuse func(subscribe.Filter) error // what it will not subscribe to
	honour func(subscribe.Filter) subscribe.Filter

	mu     sync.Mutex
	opened []subscribe.Filter
	open   map[*exchange.Exchange]context.CancelCauseFunc
	most   int // subscriptions at the same time
}

var errCut = errors.New("cut")

func (h *herald) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if x.Request.Method != mcp.MethodSubscriptionsListen {
		return mcp.NewError(x.Request.ID, mcp.CodeMethodNotFound, "no"), nil
	}
	raw, _, err := mcp.Lookup(x.Request.Params, "notifications")
	var f subscribe.Filter
	if err != nil || json.Unmarshal(raw, &f) != nil {
		h.t.Error(string(x.Request.Params))
	}
	if version, _, err := mcp.LookupString(x.Request.Params, "_meta", mcp.MetaVersion); err != nil || version != "2026-07-28" {
		h.t.Error(version, err)
	}
	if h.refuse != nil {
		if err := h.refuse(f); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.mu.Lock()
	h.opened = append(h.opened, f)
	if h.open == nil {
		h.open = map[*exchange.Exchange]context.CancelCauseFunc{}
	}
	h.open[x] = cancel
	h.most = max(h.most, len(h.open))
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.open, x)
	}()
	if h.honour != nil {
		f = h.honour(f)
	}
	honoured, _ := json.Marshal(f)
	x.Peer.Notify(subscribed(x, mcp.NotificationSubscribed, `{"notifications":`+string(honoured)+`}`))
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (h *herald) Close() error { return nil }

func subscribed(x *exchange.Exchange, method, params string) *mcp.Message {
	marked, err := mcp.Set(json.RawMessage(params), x.Request.ID.Raw(), "_meta", mcp.MetaSubscription)
	if err != nil {
		panic(err)
	}
	return &mcp.Message{Method: method, Params: marked}
}

// notifyAll sends a notification on every subscription.
func (h *herald) notifyAll(method, params string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for x := range h.open {
		x.Peer.Notify(subscribed(x, method, params))
	}
}

func (h *herald) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cancel := range h.open {
		cancel(errCut)
	}
}

func (h *herald) count() (opened, open int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.opened), len(h.open)
}

func requestSubscription(t *testing.T, c exchange.Conn, method, uri string) error {
	t.Helper()
	m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(9), method, fmt.Sprintf(`{"uri":%q}`, uri)), nil))
	if err == nil && string(m.Result) != `{}` {
		t.Errorf("%s", m.Encode())
	}
	return err
}

func TestDown_SessionsShareASubscription(t *testing.T) {
	t.Parallel()
	h := &herald{t: t}
	clients := NewDown(h, true, neverRefused, func() {}, backendtest.TestLog())
	t.Cleanup(clients.Close)
	peers := []*backendtest.Peer{backendtest.NewPeer(), backendtest.NewPeer(), backendtest.NewPeer()}
	var conns []*downConn
	for _, p := range peers {
		conns = append(conns, enterSession(t, clients, backendtest.Everything, backendtest.FullClient(), p))
	}
	if opened, _ := h.count(); opened != 0 {
		t.Error("a subscription without a member")
	}
	conns[0].Listen()
	conns[1].Listen()
	backendtest.Eventually(t, "a subscription", func() bool { opened, open := h.count(); return opened == 1 && open == 1 })
	if diff := cmp.Diff([]subscribe.Filter{{ToolsListChanged: true, ResourcesListChanged: true}}, h.opened); diff != "" {
		t.Error(diff)
	}
	for _, uri := range []string{"a:1", "a:2"} {
		if err := requestSubscription(t, conns[2], mcp.MethodResourcesSubscribe, uri); err != nil {
			t.Fatal(err)
		}
	}
	if err := requestSubscription(t, conns[0], mcp.MethodResourcesSubscribe, "a:1"); err != nil { // again
		t.Fatal(err)
	}
	backendtest.Eventually(t, "one subscription", func() bool { _, open := h.count(); return open == 1 })
	if opened, _ := h.count(); opened != 3 || h.most < 2 { // the new one stands before the old one ends
		t.Errorf("%d opened, %d at once", opened, h.most)
	}
	h.notifyAll(mcp.NotificationToolsChanged, `{}`)
	h.notifyAll(mcp.NotificationPromptsChanged, `{}`) // not declared
	h.notifyAll(mcp.NotificationMessage, `{}`)        // belongs to requests
	h.notifyAll(mcp.NotificationResourceUpdated, `{"uri":"a:1"}`)
	h.notifyAll(mcp.NotificationResourceUpdated, `{"uri":"a:2/part"}`)
	h.notifyAll(mcp.NotificationResourceUpdated, `{"uri":"a:3"}`)
	for i, want := range [][]string{
		{`notifications/tools/list_changed {"_meta":{}}`, `notifications/resources/updated {"uri":"a:1","_meta":{}}`},
		{`notifications/tools/list_changed {"_meta":{}}`},
		{`notifications/resources/updated {"uri":"a:1","_meta":{}}`, `notifications/resources/updated {"uri":"a:2/part","_meta":{}}`},
	} {
		var got []string
		for len(peers[i].Notes) > 0 {
			m := <-peers[i].Notes
			got = append(got, m.Method+" "+compact(m.Params))
		}
		for j := range want {
			method, params, _ := strings.Cut(want[j], " ")
			want[j] = method + " " + compact(json.RawMessage(params))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("session %d: %s", i, diff)
		}
	}
	if err := requestSubscription(t, conns[2], mcp.MethodResourcesUnsubscribe, "a:2"); err != nil {
		t.Fatal(err)
	}
	backendtest.Eventually(t, "a smaller subscription", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Equal(h.opened[len(h.opened)-1].ResourceSubscriptions, []string{"a:1"})
	})
	if _, ok := conns[2].Handle(); ok {
		t.Error("a session with subscriptions is continued without them")
	}
	if handle, ok := conns[1].Handle(); !ok || len(handle) > 0 {
		t.Error("a session of which nothing is kept cannot be continued")
	}
	for _, c := range conns {
		_ = c.Close()
	}
	if _, open := h.count(); open != 0 || len(clients.principals) != 0 {
		t.Error("the subscription is still there", open)
	}
}

func TestDown_PrincipalsShareNoSubscription(t *testing.T) {
	t.Parallel()
	h := &herald{t: t}
	clients := NewDown(h, true, neverRefused, func() {}, backendtest.TestLog())
	t.Cleanup(clients.Close)
	for _, name := range []string{"alice", "bob"} {
		client := backendtest.FullClient()
		client.Principal = name
		enterSession(t, clients, backendtest.Everything, client, backendtest.NewPeer()).Listen()
	}
	backendtest.Eventually(t, "two subscriptions", func() bool { _, open := h.count(); return open == 2 })
	h.mu.Lock()
	defer h.mu.Unlock()
	var who []string
	for x := range h.open {
		who = append(who, x.Client.Principal)
	}
	slices.Sort(who)
	if diff := cmp.Diff([]string{"alice", "bob"}, who); diff != "" {
		t.Error(diff)
	}
}

func TestDown_SubscriptionFails(t *testing.T) {
	t.Parallel()
	h := &herald{t: t}
	h.honour = func(f subscribe.Filter) subscribe.Filter {
		f.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(f.ResourceSubscriptions), func(uri string) bool { return uri == "no:way" })
		return f
	}
	h.refuse = func(f subscribe.Filter) error {
		switch {
		case slices.Contains(f.ResourceSubscriptions, "bad:uri"):
			return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "no such thing"}
		case slices.Contains(f.ResourceSubscriptions, "un:known"):
			return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no method subscriptions/listen"}
		}
		return nil
	}
	p := backendtest.NewPeer()
	c := sessionAt(t, h, backendtest.Everything, backendtest.FullClient(), p)
	c.Listen()
	for _, uri := range []string{"no:way", "bad:uri"} {
		if err := requestSubscription(t, c, mcp.MethodResourcesSubscribe, uri); backendtest.CodeOf(err) != mcp.CodeInvalidParams {
			t.Error(uri, err)
		}
	}
	// A method of the other era is not what this client asked for.
	if err := requestSubscription(t, c, mcp.MethodResourcesSubscribe, "un:known"); backendtest.CodeOf(err) != mcp.CodeMethodNotFound || strings.Contains(err.Error(), "subscriptions/listen") {
		t.Error(err)
	}
	if err := requestSubscription(t, c, mcp.MethodResourcesSubscribe, "good:uri"); err != nil {
		t.Error(err)
	}
	h.notifyAll(mcp.NotificationToolsChanged, `{}`)
	p.Next(t, mcp.NotificationToolsChanged) // all the while
	for i := range subscribe.MaxResources {
		if err := requestSubscription(t, c, mcp.MethodResourcesSubscribe, fmt.Sprint("many:", i)); err != nil {
			if i == subscribe.MaxResources-1 {
				return
			}
			t.Fatal(i, err)
		}
	}
	t.Error("there is no end of resources")
}

func TestDown_SubscriptionIsRenewed(t *testing.T) {
	t.Parallel()
	h := &herald{t: t}
	p := backendtest.NewPeer()
	c := sessionAt(t, h, backendtest.Everything, backendtest.FullClient(), p)
	c.Listen()
	if err := requestSubscription(t, c, mcp.MethodResourcesSubscribe, "a:1"); err != nil {
		t.Fatal(err)
	}
	for want := 3; want < 5; want++ {
		backendtest.Eventually(t, "one subscription", func() bool { _, open := h.count(); return open == 1 })
		h.cut()
		backendtest.Eventually(t, "a new subscription", func() bool { opened, open := h.count(); return opened == want && open == 1 })
	}
	if last := h.opened[len(h.opened)-1]; !last.ToolsListChanged || !slices.Equal(last.ResourceSubscriptions, []string{"a:1"}) {
		t.Error(last)
	}
	if m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodPing, ``), nil)); err != nil || m.Error != nil {
		t.Error(m, err)
	}
}

// A resource that the server refuses to watch is refused to who asks for it, and not
// to another session that asks for something else at the same time.
func TestDown_ResourcesAreRefusedOneByOne(t *testing.T) {
	t.Parallel()
	came, release := make(chan struct{}, 1), make(chan struct{})
	h := &herald{t: t, refuse: func(f subscribe.Filter) error {
		if !slices.Contains(f.ResourceSubscriptions, "a:bad") {
			return nil
		}
		select {
		case came <- struct{}{}:
		default:
		}
		<-release
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "no such resource"}
	}}
	clients := NewDown(h, true, neverRefused, func() {}, backendtest.TestLog())
	t.Cleanup(clients.Close)
	one, two := enterSession(t, clients, backendtest.Everything, backendtest.FullClient(), backendtest.NewPeer()), enterSession(t, clients, backendtest.Everything, backendtest.FullClient(), backendtest.NewPeer())
	bad, good := make(chan error, 1), make(chan error, 1)
	go func() { bad <- requestSubscription(t, one, mcp.MethodResourcesSubscribe, "a:bad") }()
	<-came
	go func() { good <- requestSubscription(t, two, mcp.MethodResourcesSubscribe, "a:good") }()
	for deadline := time.Now().Add(200 * time.Millisecond); !two.principal.hasResources(two) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // it would be among what is refused
	}
	close(release)
	if err := <-bad; backendtest.CodeOf(err) != mcp.CodeInvalidParams {
		t.Error("the one that is refused:", err)
	}
	if err := <-good; err != nil {
		t.Error("the other:", err)
	}
}

// TestDown_UnhonoredSubscriptionIsNotRenewed: a server that honours nothing may end the
// subscription at once.
func TestDown_UnhonoredSubscriptionIsNotRenewed(t *testing.T) {
	t.Parallel()
	o := &oracle{do: func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		x.Peer.Notify(subscribed(x, mcp.NotificationSubscribed, `{"notifications":{}}`))
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
	}}
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	c.Listen()
	c.Listen()
	if got := len(o.of(mcp.MethodSubscriptionsListen)); got != 1 {
		t.Errorf("%d subscriptions", got)
	}
}
