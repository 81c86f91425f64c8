package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// asking is a backend's do that sends the client a request and returns the
// answer as its result.
func asking(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
	a, err := x.Peer.Ask(ctx, &mcp.Message{ID: mcp.StringID("server's own"), Method: mcp.MethodSampling, Params: json.RawMessage(`{"q":1}`)})
	if err != nil {
		return nil, err
	}
	if a.ID != mcp.StringID("server's own") {
		return nil, fmt.Errorf("the answer has the id %s", a.ID)
	}
	if a.Error != nil {
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"refused":"`+a.Error.Message+`"}`)), nil
	}
	return mcp.NewResult(x.Request.ID, a.Result), nil
}

func TestAsk_OnTheStreamOfItsCall(t *testing.T) {
	b := newFakeBackend()
	b.do = asking
	_, srv := serve(t, b, nil, nil)
	c, thief := newWire(t, srv).initialize(mcp.V20251125), newWire(t, srv).initialize(mcp.V20251125)
	for body, want := range map[string]string{
		`"result":{"a":1}`:                       `{"a":1}`,
		`"error":{"code":-1,"message":"no way"}`: `{"refused":"no way"}`,
	} {
		e := c.stream("POST", "/mcp", req("1", "tools/call", "{}"))
		q := e.message()
		if q.Method != mcp.MethodSampling || string(q.Params) != `{"q":1}` || q.ID == mcp.StringID("server's own") {
			t.Fatalf("got %+v", q)
		}
		answer := `{"jsonrpc":"2.0","id":` + q.ID.String() + `,` + body + `}`
		stolen := strings.Replace(answer, body, `"result":{"stolen":true}`, 1)
		if a := thief.post(stolen); a.status != 202 {
			t.Errorf("another session's answer: %d", a.status)
		}
		if a := c.post(strings.Replace(stolen, `"id":`+q.ID.String(), `"id":"`+q.ID.String()+`"`, 1)); a.status != 202 {
			t.Errorf("an answer to nothing: %d", a.status)
		}
		if a := c.post(answer); a.status != 202 || a.body != "" {
			t.Errorf("the answer: %d %s", a.status, a.body)
		}
		if a := c.post(stolen); a.status != 202 {
			t.Errorf("a second answer: %d", a.status)
		}
		if m := e.message(); string(m.Result) != want {
			t.Errorf("got %+v, %v", m, m.Error)
		}
	}
}

func TestAsk_ClientDisconnects(t *testing.T) {
	b := newFakeBackend()
	failed := make(chan error, 1)
	b.do = func(ctx context.Context, c *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		m, err := asking(ctx, c, x)
		failed <- err
		return m, err
	}
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.ComeBack = 10 * time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.stream("POST", "/mcp", req("1", "tools/call", "{}"))
	e.message()
	e.close()
	if err := receive(t, "the failure", failed); !errors.Is(err, httpd.ErrClientGone) {
		t.Errorf("got %v", err)
	}
	// Nothing to ask on: plain JSON and no stream of the session.
	if a := c.post(req("2", "tools/call", "{}"), "Accept: application/json"); a.code(t) != mcp.CodeMethodNotFound {
		t.Errorf("got %s", a.body)
	}
	<-failed
	// Plain JSON, but the session's stream is there.
	stream := c.listen()
	answered := c.background(req("3", "tools/call", "{}"), "Accept: application/json")
	c.post(`{"jsonrpc":"2.0","id":` + stream.message().ID.String() + `,"result":{"ok":true}}`)
	if m := receive(t, "the answer", answered).message(t); string(m.Result) != `{"ok":true}` {
		t.Errorf("got %+v", m)
	}
}

func TestAsk_Cancelled(t *testing.T) {
	b := newFakeBackend()
	withdrawn := errors.New("withdrawn")
	withdraw := make(chan struct{})
	b.do = func(ctx context.Context, c *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() { <-withdraw; cancel(withdrawn) }()
		_, err := asking(ctx, c, x)
		if !errors.Is(err, withdrawn) {
			return nil, fmt.Errorf("got %w", err)
		}
		return echo(x), nil
	}
	_, srv := serve(t, b, nil, nil)
	e := newWire(t, srv).initialize(mcp.V20251125).stream("POST", "/mcp", req("1", "tools/call", "{}"))
	q := e.message()
	close(withdraw)
	m := e.message()
	id, _, _ := mcp.Lookup(m.Params, "requestId")
	if m.Method != mcp.NotificationCancelled || string(id) != q.ID.String() {
		t.Errorf("got %+v", m)
	}
	if m := e.message(); m.ID != mcp.IntID(1) || m.Error != nil {
		t.Errorf("got %+v, %v", m, m.Error)
	}
}

func TestAsk_WaitsForTheSessionsStream(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	type outcome struct {
		m   *mcp.Message
		err error
	}
	asked := make(chan outcome, 1)
	go func() {
		m, err := peer.Ask(context.Background(), &mcp.Message{ID: mcp.IntID(77), Method: mcp.MethodRootsList})
		asked <- outcome{m, err}
	}()
	stream := c.listen()
	q := stream.message()
	if q.Method != mcp.MethodRootsList {
		t.Fatalf("got %+v", q)
	}
	stream.close() // the answer comes although the stream is gone
	c.post(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":{"roots":[]}}`)
	if o := receive(t, "the answer", asked); o.err != nil || o.m.ID != mcp.IntID(77) || string(o.m.Result) != `{"roots":[]}` {
		t.Errorf("got %+v", o)
	}
}

func TestAsk_NoStream(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	b.do = do
	g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.AskGrace = 10 * time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	q := &mcp.Message{ID: mcp.IntID(77), Method: mcp.MethodRootsList}
	if _, err := peer.Ask(context.Background(), q); err == nil || !strings.Contains(err.Error(), "no open stream") {
		t.Errorf("no stream: %v", err)
	}
	// With a request in flight the backend has a better stream: the request fails at once.
	g.core.Timing.AskGrace = time.Hour
	answered := c.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)
	if _, err := peer.Ask(context.Background(), q); err == nil || !strings.Contains(err.Error(), "no open stream") {
		t.Errorf("busy: %v", err)
	}
	close(release)
	receive(t, "the answer", answered)
	c.listen()
	failed := make(chan error, 1)
	go func() { _, err := peer.Ask(context.Background(), q); failed <- err }()
	c.send("DELETE", "/mcp", "")
	if err := receive(t, "the failure", failed); !errors.Is(err, httpd.ErrClientGone) {
		t.Errorf("deleted: %v", err)
	}
}

func TestNotify_BacklogIsBounded(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	for i := range httpd.MaxBacklog + 10 {
		peer.Notify(note("n", fmt.Sprintf(`{"i":%d}`, i)))
	}
	peer.Notify(note("huge", `{"x":"`+strings.Repeat("x", httpd.MaxBacklogBytes)+`"}`))
	stream := c.listen()
	for i := range httpd.MaxBacklog {
		if m := stream.message(); string(m.Params) != fmt.Sprintf(`{"i":%d}`, i+10) {
			t.Fatalf("message %d is %s", i, m.Params)
		}
	}
	peer.Notify(note("live", `{}`))
	if m := stream.message(); m.Method != "live" {
		t.Errorf("got %+v", m)
	}
}

func TestListen_SecondStreamReplacesFirst(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	first := c.listen()
	second := c.listen()
	if m := first.message(); m != nil {
		t.Errorf("the first goes on: %+v", m)
	}
	peer.Notify(note("a", `{}`))
	if m := second.message(); m.Method != "a" {
		t.Errorf("got %+v", m)
	}
}

func TestNotify_SlowClient(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	slow := receive(t, "the connection", b.conns).session
	resp, err := c.client.Do(c.request(t.Context(), "GET", "/mcp", "", "Accept: text/event-stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() // and it is never read
	big := note("big", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			slow.Notify(big)
		}
	}()
	receive(t, "a hundred notifications to be sent or dropped", done)
	if a := c.post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestListen_KeepAlive(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, func(p *httpd.Timing) { p.KeepAlive = 5 * time.Millisecond })
	stream := newWire(t, srv).initialize(mcp.V20251125).listen()
	for range 3 {
		if d := cmp.Diff(": keep-alive", stream.next()); d != "" {
			t.Error(d)
		}
	}
}
