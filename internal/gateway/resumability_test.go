package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/gateway/sessions"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// resume goes on with the stream that had the event.
func (c *wire) resume(id string) *events {
	c.t.Helper()
	e := c.stream(http.MethodGet, "/mcp", "", "Accept: text/event-stream", "Last-Event-ID: "+id)
	if e.status != 200 {
		c.t.Fatalf("GET with Last-Event-ID: %d", e.status)
	}
	return e
}

// nextID is the id of the next event whose id has not been taken.
func (e *events) nextID() string {
	e.t.Helper()
	return receive(e.t, "an event's id", e.ids)
}

// leave closes the stream and waits until the session has noticed.
func (e *events) leave(g *Gateway, c *wire) {
	e.t.Helper()
	e.close()
	eventually(e.t, "the session to notice", func() bool { return inspect(e.t, g, c).Streams == 0 })
}

func inspect(t testing.TB, g *Gateway, c *wire) sessions.Inspection {
	t.Helper()
	i, ok := g.store.Inspect(c.session)
	if !ok {
		t.Fatal("the session is over")
	}
	return i
}

// stepping is a backend's do whose "work" requests do the steps that the test sends,
// one step after the other, until there are no more.
func stepping() (do func(context.Context, *fakeConn, *exchange.Exchange) (*mcp.Message, error), steps chan func(context.Context, *exchange.Exchange)) {
	steps = make(chan func(context.Context, *exchange.Exchange))
	return func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == "work" {
			for step := range steps {
				step(ctx, x)
			}
		}
		return echo(x), nil
	}, steps
}

func progress(n int) func(context.Context, *exchange.Exchange) {
	return func(_ context.Context, x *exchange.Exchange) {
		x.Peer.Notify(note(mcp.NotificationProgress, fmt.Sprintf(`{"progressToken":"t","progress":%d}`, n)))
	}
}

func (e *events) wantProgress(n int) {
	e.t.Helper()
	if m := e.message(); m == nil || string(m.Params) != fmt.Sprintf(`{"progressToken":"t","progress":%d}`, n) {
		e.t.Fatalf("got %+v, want progress %d", m, n)
	}
}

func (e *events) wantResponse(id int64) {
	e.t.Helper()
	if m := e.message(); m == nil || m.ID != mcp.IntID(id) || m.Result == nil {
		e.t.Fatalf("got %+v, want the response to %d", m, id)
	}
	if m := e.message(); m != nil {
		e.t.Errorf("after the response: %+v", m)
	}
}

func TestResume_StreamOfAPOST(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(v), func(t *testing.T) {
			b := newFakeBackend()
			do, steps := stepping()
			b.do = do
			g, srv := serve(t, b, nil, nil)
			c := newWire(t, srv).initialize(v)
			first := c.background(req("9", "echo", "{}")) // plain JSON beside it
			e := c.startWork(steps, progress(1))
			if v >= mcp.V20251125 {
				e.nextID() // of the priming event
			}
			e.wantProgress(1)
			one := e.nextID()
			e.leave(g, c)
			steps <- progress(2)
			again := c.resume(one)
			again.wantProgress(2)
			two := again.nextID()
			steps <- progress(3)
			again.wantProgress(3)
			// And once more, from before what it has read.
			again.leave(g, c)
			again = c.resume(two)
			again.wantProgress(3)
			close(steps)
			again.wantResponse(1)
			// The response was delivered, but who comes back gets it again.
			c.resume(two).wantProgress(3)
			last := c.resume(two)
			last.wantProgress(3)
			last.wantResponse(1)
			if a := receive(t, "the other answer", first); a.header.Get("Content-Type") != "application/json" {
				t.Errorf("got %v", a.header)
			}
		})
	}
}

// startWork POSTs a "work" request and has it do its first step.
func (c *wire) startWork(steps chan func(context.Context, *exchange.Exchange), first func(context.Context, *exchange.Exchange)) *events {
	c.t.Helper()
	go func() { steps <- first }()
	return c.stream("POST", "/mcp", req("1", "work", "{}"))
}

// isAnswered waits until all requests with a stream have their responses.
func isAnswered(t *testing.T, g *Gateway, c *wire) {
	t.Helper()
	eventually(t, "the response", func() bool { return inspect(t, g, c).Unanswered == 0 })
}

func TestResume_ResponseIsKept(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.startWork(steps, progress(1))
	primed := e.nextID()
	e.leave(g, c)
	close(steps)
	isAnswered(t, g, c)
	g.store.Expire(time.Now().Add(DefaultSessionTTL - time.Minute)) // what was read would be dropped
	again := c.resume(primed)
	again.wantProgress(1)
	again.wantResponse(1)
}

func TestResume_PrimingEvent(t *testing.T) {
	b := newFakeBackend()
	do, _, release, _ := held()
	b.do = do
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Quiet = time.Millisecond })
	for v, want := range map[mcp.Version]bool{mcp.V20250326: false, mcp.V20250618: false, mcp.V20251125: true} {
		c := newWire(t, srv).initialize(v)
		for name, e := range map[string]*events{"GET": c.listen(), "POST": c.stream("POST", "/mcp", req("1", "hold", "{}"))} {
			if want {
				if id := e.nextID(); strings.Count(id, "-") != 2 {
					t.Errorf("%s %s: id %q", v, name, id)
				}
			}
			e.close()
			for range e.lines { // to its end
			}
			if len(e.ids) != 0 {
				t.Errorf("%s %s: an event more", v, name)
			}
		}
	}
	close(release)
}

func TestResume_PlainJSONKeepsNothing(t *testing.T) {
	g, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	c.post(req("1", "echo", "{}"))
	if i := inspect(t, g, c); i != (sessions.Inspection{}) {
		t.Errorf("%+v", i)
	}
}

func TestResume_SessionStream(t *testing.T) {
	b := newFakeBackend()
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	e := c.listen()
	e.nextID()
	peer.Notify(note("a", `{}`))
	peer.Notify(note("b", `{}`))
	e.message()
	first := e.nextID()
	e.message()
	e.leave(g, c)
	peer.Notify(note("c", `{}`)) // no stream is open
	again := c.resume(first)
	for _, want := range []string{"b", "c"} {
		if m := again.message(); m.Method != want {
			t.Errorf("got %+v, want %s", m, want)
		}
	}
	peer.Notify(note("d", `{}`))
	if m := again.message(); m.Method != "d" {
		t.Errorf("got %+v", m)
	}
	ids := map[string]bool{first: true}
	for range 3 {
		id := again.nextID()
		if ids[id] {
			t.Errorf("the id %s is there twice", id)
		}
		ids[id] = true
	}
}

func TestResume_StreamsAreSeparate(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	own := c.listen()
	ownID := own.nextID()
	e := c.startWork(steps, progress(1))
	postID := e.nextID()
	peer.Notify(note("news", `{}`))
	own.message()
	e.wantProgress(1)
	own.close()
	e.leave(g, c)
	own, e = c.resume(ownID), c.resume(postID)
	if m := own.message(); m.Method != "news" {
		t.Errorf("got %+v", m)
	}
	e.wantProgress(1)
	close(steps)
	e.wantResponse(1)
}

func TestResume_InvalidEventID(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c, other := newWire(t, srv).initialize(mcp.V20251125), newWire(t, srv).initialize(mcp.V20251125)
	own := c.listen().nextID()
	tag, rest, _ := strings.Cut(own, "-")
	for name, id := range map[string]string{
		"another session's": other.listen().nextID(), "garbage": "1", "dashes": "--", "no number": tag + "-1-x", "no stream": tag + "--1",
		"a sign": tag + "-1-+1", "zeros": tag + "-01-1", "more": own + "-1", "a cut tag": tag[1:] + "-" + rest, "too large": tag + "-1-99999999999999999999", "long": strings.Repeat("x", 10_000),
	} {
		a := c.send("GET", "/mcp", "", "Accept: text/event-stream", "Last-Event-ID: "+id)
		if a.status != 400 || a.code(t) != mcp.CodeInvalidRequest {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

func TestResume_UnknownEvent(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	e := c.listen()
	tag, rest, _ := strings.Cut(e.nextID(), "-")
	own, _, _ := strings.Cut(rest, "-")
	for name, id := range map[string]string{"a stream that never was": tag + "-1-5", "an event to come": tag + "-" + own + "-100"} {
		again := c.resume(id)
		again.nextID() // primed
		peer.Notify(note("now", `{}`))
		if m := again.message(); m.Method != "now" {
			t.Errorf("%s: got %+v", name, m)
		}
	}
}

func TestResume_ServerRequest(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	ask := func(ctx context.Context, x *exchange.Exchange) {
		m, err := asking(ctx, nil, x)
		if err != nil {
			x.Peer.Notify(note("failed", `{}`))
			return
		}
		x.Peer.Notify(&mcp.Message{Method: "answered", Params: m.Result})
	}
	for name, away := range map[string]bool{"asked while it was away": true, "asked before": false} {
		t.Run(name, func(t *testing.T) {
			steps2 := make(chan func(context.Context, *exchange.Exchange))
			do, steps = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
				for step := range steps2 {
					step(ctx, x)
				}
				return echo(x), nil
			}, steps2
			b.do = do
			e := c.startWork(steps, progress(1))
			e.nextID()
			e.wantProgress(1)
			one := e.nextID()
			if away {
				e.leave(g, c)
				steps <- ask
			} else {
				steps <- ask
				e.message()
				e.leave(g, c)
			}
			again := c.resume(one)
			q := again.message()
			if q.Method != mcp.MethodSampling {
				t.Fatalf("got %+v", q)
			}
			c.post(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":{"a":1}}`)
			if m := again.message(); m.Method != "answered" || string(m.Params) != `{"a":1}` {
				t.Errorf("got %+v", m)
			}
			close(steps)
			again.wantResponse(1)
		})
	}
}

func TestResume_ServerRequestTimesOut(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.ComeBack = 10 * time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.startWork(steps, progress(1))
	primed := e.nextID()
	e.leave(g, c)
	failed := make(chan error, 1)
	steps <- func(ctx context.Context, x *exchange.Exchange) { _, err := asking(ctx, nil, x); failed <- err }
	if err := receive(t, "the failure", failed); err != httpd.ErrClientGone {
		t.Errorf("got %v", err)
	}
	// It may still come back for the outcome, and be asked then.
	again := c.resume(primed)
	again.wantProgress(1)
	go func() {
		steps <- func(ctx context.Context, x *exchange.Exchange) {
			x.Peer.Notify(note("again", `{}`))
			_, err := asking(ctx, nil, x)
			failed <- err
		}
	}()
	for again.message().Method != "again" { // what the failed request left
	}
	q := again.message()
	c.post(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":{}}`)
	if err := receive(t, "the answer", failed); err != nil {
		t.Errorf("got %v", err)
	}
	close(steps)
	again.wantResponse(1)
}

func TestResume_Batch(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20250326)
	go func() { steps <- progress(1) }()
	e := c.stream("POST", "/mcp", "["+req("1", "work", "{}")+","+req("2", "echo", "{}")+"]")
	e.wantProgress(1)
	one := e.nextID()
	e.leave(g, c)
	close(steps)
	again := c.resume(one)
	got := map[mcp.ID]bool{}
	for m := again.message(); m != nil; m = again.message() {
		got[m.ID] = m.Result != nil
	}
	if len(got) != 2 || !got[mcp.IntID(1)] || !got[mcp.IntID(2)] {
		t.Errorf("got %v", got)
	}
}

func TestResume_LargeResponse(t *testing.T) {
	b := newFakeBackend()
	goOn := make(chan struct{})
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		x.Peer.Notify(note(mcp.NotificationProgress, `{"progressToken":"t","progress":1}`))
		<-goOn
		return mcp.NewResult(x.Request.ID, json.RawMessage(`"`+strings.Repeat("x", 256<<10)+`"`)), nil
	}
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.stream("POST", "/mcp", req("1", "work", "{}"))
	e.wantProgress(1)
	e.nextID()
	one := e.nextID()
	e.leave(g, c)
	close(goOn)
	isAnswered(t, g, c)
	again := c.resume(one)
	if m := again.message(); m.ID != mcp.IntID(1) || m.Error == nil || m.Error.Code != mcp.CodeServerGone {
		t.Errorf("got %v, %v", m.ID, m.Error)
	}
}

func TestResume_OneReader(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.startWork(steps, progress(1))
	e.wantProgress(1)
	e.nextID()
	second := c.resume(e.nextID()) // the first has not been seen to end
	steps <- progress(2)
	second.wantProgress(2)
	close(steps)
	second.wantResponse(1)
	if m := e.message(); m != nil {
		t.Errorf("the first goes on: %+v", m)
	}
}

func TestResume_SessionEnds(t *testing.T) {
	b := newFakeBackend()
	do, entered, _, _ := held()
	b.do = do
	g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Quiet = time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.stream("POST", "/mcp", req("1", "hold", "{}"))
	receive(t, "the request", entered)
	primed := e.nextID()
	e.leave(g, c)
	again := c.resume(primed)
	c.send("DELETE", "/mcp", "")
	if m := again.message(); m == nil || m.ID != mcp.IntID(1) || m.Error == nil {
		t.Errorf("got %+v", m)
	}
	if m := again.message(); m != nil {
		t.Errorf("got %+v", m)
	}
	if a := c.send("GET", "/mcp", "", "Accept: text/event-stream", "Last-Event-ID: "+primed); a.status != 404 || a.code(t) != -32001 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if n := g.core.Held.Used(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
