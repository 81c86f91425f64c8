package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func sseMode(c *Config) { c.Endpoint.Mode = endpoint.SSE }

// subscribe opens an SSE client's stream; c then posts to its endpoint.
func (c *wire) subscribe() (e *events, endpoint string) {
	c.t.Helper()
	e = c.stream("GET", "/sse", "", "Accept: text/event-stream")
	if e.status != 200 {
		c.t.Fatalf("GET /sse: %d", e.status)
	}
	return e, e.next()
}

func TestSSE_Session(t *testing.T) {
	b := newFakeBackend()
	b.do = func(ctx context.Context, c *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == "tools/call" {
			x.Peer.Notify(note(mcp.NotificationProgress, `{"progressToken":1,"progress":1}`))
			return asking(ctx, c, x)
		}
		return echo(x), nil
	}
	_, srv := serve(t, b, func(c *Config) { c.Endpoint.Mode, c.Endpoint.Prefix = endpoint.SSE, "/tools/x/" }, nil)
	c := newWire(t, srv)
	e, endpoint := c.subscribe()
	path, ok := strings.CutPrefix(endpoint, "/tools/x")
	if !ok || !strings.HasPrefix(path, "/messages?session_id=") {
		t.Fatalf("endpoint %q", endpoint)
	}
	send := func(body string) {
		t.Helper()
		if a := c.send("POST", path, body, "Accept: "); a.status != 202 {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
	}
	send(req("0", "echo", "{}"))
	if m := e.message(); m.ID != mcp.IntID(0) || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("before initialize: %+v", m)
	}
	send(req("0", "ping", "{}"))
	if m := e.message(); m.ID != mcp.IntID(0) || string(m.Result) != "{}" {
		t.Errorf("a ping before initialize: %+v", m)
	}
	send(req("1", "server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`))
	if m := e.message(); m.ID != mcp.IntID(1) || m.Error == nil {
		t.Errorf("a stateless request: %+v", m)
	}
	send(initBody)
	if m := e.message(); m.ID != mcp.StringID("init") || m.Result == nil {
		t.Fatalf("got %+v", m)
	}
	send(initBody)
	if m := e.message(); m.Error == nil || m.Error.Message != errInitialized.Message {
		t.Errorf("a second initialize: %+v", m)
	}
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(req("2", "tools/call", "{}"))
	if m := e.message(); m.Method != mcp.NotificationProgress {
		t.Errorf("got %+v", m)
	}
	q := e.message()
	send(`{"jsonrpc":"2.0","id":` + q.ID.String() + `,"result":{"x":1}}`)
	if m := e.message(); m.ID != mcp.IntID(2) || string(m.Result) != `{"x":1}` {
		t.Errorf("got %+v, %v", m, m.Error)
	}
}

func TestSSE_Refused(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), sseMode, nil)
	c := newWire(t, srv)
	_, endpoint := c.subscribe()
	tests := []struct {
		method, path, body string
		status, code       int
	}{
		{"POST", "/messages?session_id=unknown", req("1", "ping", "{}"), 404, -32001},
		{"POST", "/messages", req("1", "ping", "{}"), 400, -32600},
		{"POST", endpoint, "{", 400, -32700},
		{"POST", endpoint, "[" + req("1", "ping", "{}") + "]", 400, -32600},
		{"GET", endpoint, "", 405, 0},
		{"POST", "/sse", "{}", 405, 0},
		{"POST", "/mcp", initBody, 404, 0},
	}
	for _, tt := range tests {
		a := c.send(tt.method, tt.path, tt.body)
		if a.status != tt.status || (tt.code != 0 && a.code(t) != tt.code) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, a.status, a.body)
		}
		if tt.path == "/mcp" && !strings.Contains(a.body, "/sse") {
			t.Errorf("the error does not name the path: %s", a.body)
		}
	}
}

func TestSSE_PrefixLikeItsPaths(t *testing.T) {
	for _, prefix := range []string{"/s", "/sse", "/mess", "/messages"} {
		_, srv := serve(t, newFakeBackend(), func(c *Config) { c.Endpoint.Mode, c.Endpoint.Prefix = endpoint.SSE, prefix }, nil)
		for _, before := range []string{"", prefix} { // taken off on the way, or not
			c := newWire(t, srv)
			e := c.stream("GET", before+"/sse", "", "Accept: text/event-stream")
			if e.status != 200 {
				t.Errorf("GET %s/sse: %d", before, e.status)
				continue
			}
			path := before + strings.TrimPrefix(e.next(), prefix)
			if a := c.send("POST", path, initBody); a.status != 202 {
				t.Errorf("POST %s: %d %s", path, a.status, a.body)
			}
			e.close()
		}
	}
}

func TestSSE_StreamEnds(t *testing.T) {
	b := newFakeBackend()
	do, entered, _, cancelled := held()
	b.do = do
	g, srv := serve(t, b, sseMode, nil)
	c := newWire(t, srv)
	e, endpoint := c.subscribe()
	c.send("POST", endpoint, initBody)
	e.message()
	c.send("POST", endpoint, req("1", "hold", "{}"))
	receive(t, "the request", entered)
	e.close()
	receive(t, "the cancellation", cancelled)
	receive(t, "the end of the connection", b.ended)
	if a := c.send("POST", endpoint, req("2", "echo", "{}")); a.status != 404 || a.code(t) != -32001 || g.Sessions() != 0 {
		t.Errorf("%d %s, %d sessions", a.status, a.body, g.Sessions())
	}
}

func TestSSE_ServerEnds(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, sseMode, nil)
	c := newWire(t, srv)
	e, endpoint := c.subscribe()
	c.send("POST", endpoint, initBody)
	e.message()
	receive(t, "the connection", b.conns).lose()
	if m := e.message(); m != nil {
		t.Errorf("the stream goes on: %+v", m)
	}
}

func TestSSE_EndAnswersRequestsInFlight(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*Gateway, *fakeConn)
		want error
	}{
		{"with its server", func(_ *Gateway, c *fakeConn) { c.lose() }, errServerLost},
		{"with the gateway", func(g *Gateway, _ *fakeConn) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = g.Close(ctx)
		}, httpd.ErrStopping},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newFakeBackend()
			do, entered, _, _ := held()
			b.do = do
			g, srv := serve(t, b, sseMode, func(p *httpd.Timing) { p.Settle = 10 * time.Millisecond })
			c := newWire(t, srv)
			e, endpoint := c.subscribe()
			c.send("POST", endpoint, initBody)
			e.message()
			c.send("POST", endpoint, req(`"a"`, "hold", "{}"))
			receive(t, "the request", entered)
			row.end(g, receive(t, "the connection", b.conns))
			if m := e.message(); m == nil || m.ID != mcp.StringID("a") || m.Error == nil || m.Error.Message != row.want.Error() {
				t.Fatalf("got %+v", m)
			}
			if m := e.message(); m != nil {
				t.Errorf("the stream goes on: %+v", m)
			}
		})
	}
}

func TestSSE_LastResponse(t *testing.T) {
	b := newFakeBackend()
	b.do = func(_ context.Context, c *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		defer c.lose() // it answers, and ends
		return echo(x), nil
	}
	_, srv := serve(t, b, sseMode, nil)
	for range 100 {
		c := newWire(t, srv)
		e, endpoint := c.subscribe()
		c.send("POST", endpoint, initBody)
		e.message()
		c.send("POST", endpoint, req("1", "echo", "{}"))
		if m := e.message(); m == nil || m.Result == nil {
			t.Fatalf("got %+v", m)
		}
		e.close()
	}
}

func TestSSE_CancelAtOnce(t *testing.T) {
	b := newFakeBackend()
	do, _, _, _ := held()
	b.do = do
	_, srv := serve(t, b, sseMode, nil)
	c := newWire(t, srv)
	e, endpoint := c.subscribe()
	c.send("POST", endpoint, initBody)
	e.message()
	for i := range 20 {
		c.send("POST", endpoint, req(fmt.Sprint(i), "hold", "{}"))
		c.send("POST", endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		if m := e.message(); m.ID != mcp.IntID(int64(i)) || m.Error == nil || m.Error.Message != errCancelled.Message {
			t.Fatalf("got %+v", m)
		}
	}
}

func TestSSE_ClientsAreSeparate(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, sseMode, nil)
	a, other := newWire(t, srv), newWire(t, srv)
	e, endpoint := a.subscribe()
	e2, endpoint2 := other.subscribe()
	a.send("POST", endpoint, initBody)
	e.message()
	other.send("POST", endpoint2, initBody)
	e2.message()
	receive(t, "the connection", b.conns).session.Notify(note("for the first", `{}`))
	a.send("POST", endpoint, req("1", "echo", `{"a":1}`))
	other.send("POST", endpoint2, req("1", "echo", `{"b":1}`))
	if m := e2.message(); string(m.Result) != `{"b":1}` {
		t.Errorf("the second got %+v", m)
	}
	if m := e.message(); m.Method != "for the first" {
		t.Errorf("the first got %+v", m)
	}
	if m := e.message(); string(m.Result) != `{"a":1}` {
		t.Errorf("the first got %+v", m)
	}
}

// Everything goes to one stream there, where the refusal of a request would answer the
// one that has its id.
func TestSSE_IDInFlight(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	opening, open := make(chan struct{}), make(chan struct{})
	b.do = do
	b.open = func(context.Context, *fakeConn) error {
		close(opening)
		<-open
		return nil
	}
	_, srv := serve(t, b, sseMode, nil)
	c := newWire(t, srv)
	e, endpoint := c.subscribe()
	refused := func(body string) {
		t.Helper()
		a := c.send("POST", endpoint, body)
		if m := a.message(t); a.status != 400 || !m.ID.IsZero() || m.Error == nil || m.Error.Message != errInFlight.Message {
			t.Errorf("%.40s got %d %s", body, a.status, a.body)
		}
	}
	answered := func(id mcp.ID, part string) {
		t.Helper()
		if m := e.message(); m == nil || m.ID != id || m.Error != nil || !strings.Contains(string(m.Result), part) {
			t.Errorf("on the stream came %+v, want the result of %s", m, id)
		}
	}
	c.send("POST", endpoint, strings.Replace(initBody, string(mcp.V20251125), string(mcp.V20250326), 1))
	receive(t, "initialize", opening)
	refused(req(`"init"`, "tools/list", `{}`))
	close(open)
	answered(mcp.StringID("init"), "fake")

	c.send("POST", endpoint, req("7", "hold", `{"first":1}`))
	receive(t, "the first", entered)
	refused(req("7", "hold", `{}`))
	// Nothing of a batch is begun.
	refused("[" + req("8", "echo", `{}`) + "," + req("7", "echo", `{}`) + "]")
	refused("[" + req("9", "echo", `{}`) + "," + req("9", "echo", `{}`) + "]")
	close(release)
	answered(mcp.IntID(7), `"first"`)
	for _, id := range []string{"7", "8", "9"} {
		if a := c.send("POST", endpoint, req(id, "echo", `{"again":1}`)); a.status != 202 {
			t.Errorf("%s, which is free, got %d %s", id, a.status, a.body)
		}
		m := e.message()
		if m == nil || m.ID.String() != id || !strings.Contains(string(m.Result), "again") {
			t.Errorf("on the stream came %+v", m)
		}
	}
}

// A POST that is refused as a whole leaves none of its ids in flight.
func TestSSE_BatchWithLostNotification(t *testing.T) {
	b := newFakeBackend()
	b.info = `{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`
	g, srv := serve(t, failing{b}, sseMode, nil)
	c := newWire(t, srv)
	e, endpoint := c.subscribe()
	c.send("POST", endpoint, initBody)
	e.message()
	if a := c.send("POST", endpoint, `[{"jsonrpc":"2.0","method":"n"},`+req("1", "echo", "{}")+"]"); a.status != 502 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	c.send("POST", endpoint, req("1", "echo", `{"again":1}`))
	if m := e.message(); m == nil || m.ID != mcp.IntID(1) || !strings.Contains(string(m.Result), "again") {
		t.Errorf("on the stream came %+v", m)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if left := g.core.Calls.Wait(ctx); left != 0 {
		t.Errorf("%d calls are under way", left)
	}
}

// failing is a server that takes no notification.
type failing struct{ *fakeBackend }

type failingConn struct{ exchange.Conn }

func (b failing) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.fakeBackend.Open(ctx, client, session)
	return failingConn{conn}, err
}

func (failingConn) Notify(context.Context, *mcp.Message) error { return errRefused }
