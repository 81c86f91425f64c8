package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestPost_Refused(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	ping := req("7", "ping", "{}")
	tests := []struct {
		name, method, path, body string
		headers                  []string
		status, code             int
		id, allow                string
	}{
		{name: "unknown path", method: "POST", path: "/", body: ping, status: 404},
		{name: "a path is not cleaned", method: "POST", path: "//mcp", body: ping, status: 404},
		{name: "two trailing slashes", method: "POST", path: "/mcp//", body: ping, status: 404},
		{name: "the other mode's path", method: "GET", path: "/sse", status: 404},
		{name: "PUT", method: "PUT", path: "/mcp", status: 405, allow: "GET, POST, DELETE, OPTIONS"},
		{name: "HEAD", method: "HEAD", path: "/mcp", status: 405, allow: "GET, POST, DELETE, OPTIONS"},
		{name: "OPTIONS", method: "OPTIONS", path: "/mcp", status: 204, allow: "GET, POST, DELETE, OPTIONS"},
		{name: "POST to health", method: "POST", path: "/health", status: 405, allow: "GET, HEAD, OPTIONS"},
		{name: "text/plain", method: "POST", path: "/mcp", body: ping, headers: []string{"Content-Type: text/plain"}, status: 415, code: -32600},
		{name: "no content type", method: "POST", path: "/mcp", body: ping, headers: []string{"Content-Type: "}, status: 415, code: -32600},
		{name: "compressed", method: "POST", path: "/mcp", body: ping, headers: []string{"Content-Encoding: gzip"}, status: 415, code: -32600},
		{name: "a charset is fine", method: "POST", path: "/mcp", body: ping, headers: []string{"Content-Type: application/json; charset=utf-8"}, status: 200},
		{name: "accepts HTML only", method: "POST", path: "/mcp", body: ping, headers: []string{"Accept: text/html"}, status: 406, code: -32600},
		{name: "no Accept header", method: "POST", path: "/mcp", body: ping, headers: []string{"Accept: "}, status: 200},
		{name: "accepts anything", method: "POST", path: "/mcp", body: ping, headers: []string{"Accept: text/html;q=0.9, */*;q=0.1"}, status: 200},
		{name: "accepts nothing that we have", method: "POST", path: "/mcp", body: ping, headers: []string{"Accept: text/html, application/json;q=0, text/event-stream; Q=0.00"}, status: 406, code: -32600},
		{name: "GET that accepts JSON only", method: "GET", path: "/mcp", headers: []string{"Accept: application/json"}, status: 406, code: -32600},
		{name: "no JSON", method: "POST", path: "/mcp", body: `{"jsonrpc":`, status: 400, code: -32700},
		{name: "empty", method: "POST", path: "/mcp", body: ``, status: 400, code: -32700},
		{name: "no JSON-RPC", method: "POST", path: "/mcp", body: `{"id":9,"method":"ping"}`, status: 400, code: -32600, id: "9"},
		{name: "a key twice", method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","id":9,"method":"ping","method":"pong"}`, status: 400, code: -32600, id: "9"},
		{name: "a key in another case", method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","id":9,"Method":"ping"}`, status: 400, code: -32600, id: "9"},
		{name: "two tools", method: "POST", path: "/mcp", body: req("9", "tools/call", `{"name":"echo","Name":"pid"}`), status: 400, code: -32602, id: "9"},
		{name: "an id of null", method: "POST", path: "/mcp", body: req("null", "ping", "{}"), status: 400, code: -32600},
		{name: "a batch", method: "POST", path: "/mcp", body: "[" + ping + "]", status: 400, code: -32600},
		{name: "initialize in a batch", method: "POST", path: "/mcp", body: "[" + initBody + "]", status: 400, code: -32600},
		{name: "initialize without a version", method: "POST", path: "/mcp", body: req("1", "initialize", "{}"), status: 400, code: -32602, id: "1"},
		{name: "initialize with odd capabilities", method: "POST", path: "/mcp", body: req("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":[]}`), status: 400, code: -32602, id: "1"},
		{name: "no session id", method: "POST", path: "/mcp", body: ping, headers: []string{"Mcp-Session-Id: "}, status: 400, code: -32600, id: "7"},
		{name: "unknown session, request", method: "POST", path: "/mcp", body: req(`"abc"`, "ping", "{}"), headers: []string{"Mcp-Session-Id: unknown"}, status: 404, code: -32001, id: `"abc"`},
		{name: "unknown session, notification", method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers: []string{"Mcp-Session-Id: unknown"}, status: 404, code: -32001},
		{name: "unknown session, response", method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, headers: []string{"Mcp-Session-Id: unknown"}, status: 404, code: -32001},
		{name: "GET of an unknown session", method: "GET", path: "/mcp", headers: []string{"Mcp-Session-Id: unknown"}, status: 404, code: -32001},
		{name: "GET without a session", method: "GET", path: "/mcp", headers: []string{"Mcp-Session-Id: "}, status: 405, allow: "POST, OPTIONS", code: -32600},
		{name: "DELETE of an unknown session", method: "DELETE", path: "/mcp", headers: []string{"Mcp-Session-Id: unknown"}, status: 404, code: -32001},
		{name: "DELETE without a session", method: "DELETE", path: "/mcp", headers: []string{"Mcp-Session-Id: "}, status: 400, code: -32600},
		{name: "an unknown version header", method: "POST", path: "/mcp", body: ping, headers: []string{"Mcp-Protocol-Version: 2024-10-07"}, status: 400, code: -32600, id: "7"},
		{name: "a version header we know", method: "POST", path: "/mcp", body: ping, headers: []string{"Mcp-Protocol-Version: 2025-06-18"}, status: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := c.send(tt.method, tt.path, tt.body, tt.headers...)
			if a.status != tt.status || a.header.Get("Allow") != tt.allow {
				t.Fatalf("%d, Allow %q: %s", a.status, a.header.Get("Allow"), a.body)
			}
			if tt.code == 0 {
				return
			}
			m := a.message(t)
			if m.Error == nil || m.Error.Code != tt.code || m.ID.String() != tt.id {
				t.Errorf("got %s", a.body)
			}
		})
	}
}

func TestPost_BodyTooLarge(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	large := func(n int) string { return req("1", "echo", `{"x":"`+strings.Repeat("x", n)+`"}`) }
	if a := c.post(large(mcp.MaxBody - 100)); a.status != 200 {
		t.Errorf("a body within the limit: %d", a.status)
	}
	// None of it is waited for: who sends it all the same may be cut off.
	conn := raw(t, srv.Listener.Addr().String(), fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", mcp.MaxBody+1))
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 413 ") || !strings.Contains(string(b), `"code":-32600`) {
		t.Errorf("an announced body over the limit: %v, %.300q", err, b)
	}
	r := c.request(context.Background(), "POST", "/mcp", large(mcp.MaxBody))
	r.ContentLength = -1
	if a := c.do(r); a.status != 413 {
		t.Errorf("a chunked body over the limit: %d", a.status)
	}
}

func TestPost_BodyTimesOut(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, func(p *httpd.Timing) { p.ReadBody = 20 * time.Millisecond })
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 64)
	n, err := conn.Read(b)
	if err != nil || !strings.HasPrefix(string(b[:n]), "HTTP/1.1 408 ") {
		t.Errorf("%q, %v", b[:n], err)
	}
}

func TestInitialize(t *testing.T) {
	for _, tt := range []struct{ asked, got string }{
		{"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"},
		{"2026-07-28", "2025-11-25"}, {"1999-01-01", "2025-11-25"}, {"", "2025-11-25"},
	} {
		t.Run(tt.asked, func(t *testing.T) {
			b := newFakeBackend()
			_, srv := serve(t, b, nil, nil)
			a := newWire(t, srv).post(req("1", "initialize", `{"protocolVersion":"`+tt.asked+`","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}`))
			if got, _, _ := mcp.LookupString(a.message(t).Result, "protocolVersion"); got != tt.got {
				t.Errorf("negotiated %q", got)
			}
			if id := a.header.Get("Mcp-Session-Id"); len(id) < 26 {
				t.Errorf("session id %q has less than 128 bits", id)
			}
			want := &exchange.Client{Version: mcp.Version(tt.got), Capabilities: json.RawMessage(`{"roots":{}}`), Info: json.RawMessage(`{"name":"c"}`)}
			if d := cmp.Diff(want, receive(t, "the connection", b.conns).client); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPost_PlainJSON(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	for _, id := range []string{"1", `"1"`, "9007199254740993", `"\u00e4"`} {
		a := c.post(req(id, "echo", `{"n": 1.50}`))
		m := a.message(t)
		want, _ := mcp.AsID(json.RawMessage(id))
		if a.status != 200 || m.ID != want || string(m.Result) != `{"n": 1.50}` {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestPost_NotificationsMakeAStream(t *testing.T) {
	b := newFakeBackend()
	goOn := make(chan struct{})
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		for _, n := range []string{"1", "2", "3"} {
			x.Peer.Notify(note(mcp.NotificationProgress, `{"progressToken":"t","progress":`+n+`}`))
		}
		<-goOn // the client reads them before there is a response
		return echo(x), nil
	}
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	c.initialize(mcp.V20251125)
	e := c.stream("POST", "/mcp", req("1", "work", "{}"))
	if e.header.Get("X-Accel-Buffering") != "no" || !strings.HasPrefix(e.header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("headers %v", e.header)
	}
	for _, n := range []string{"1", "2", "3"} {
		if m := e.message(); m.Method != mcp.NotificationProgress || string(m.Params) != `{"progressToken":"t","progress":`+n+`}` {
			t.Errorf("got %+v", m)
		}
	}
	close(goOn)
	if m := e.message(); m.ID != mcp.IntID(1) || m.Result == nil {
		t.Errorf("got %+v", m)
	}
	if m := e.message(); m != nil {
		t.Errorf("after the response: %+v", m)
	}
}

func TestPost_SlowRequestBecomesAStream(t *testing.T) {
	b := newFakeBackend()
	do, _, release, _ := held()
	b.do = do
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Quiet, p.KeepAlive = 10*time.Millisecond, 5*time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	e := c.stream("POST", "/mcp", req("1", "hold", "{}"))
	for range 3 {
		if line := e.next(); !strings.HasPrefix(line, ":") {
			t.Errorf("got %q", line)
		}
	}
	close(release)
	if m := e.message(); m.ID != mcp.IntID(1) || m.Result == nil {
		t.Errorf("got %+v", m)
	}
}

func TestInitialize_Slow(t *testing.T) {
	b := newFakeBackend()
	opened := make(chan struct{})
	b.open = func(context.Context, *fakeConn) error { <-opened; return nil }
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Quiet = 5 * time.Millisecond })
	c := newWire(t, srv)
	e := c.stream("POST", "/mcp", initBody)
	c.session = e.header.Get("Mcp-Session-Id")
	close(opened)
	if m := e.message(); m.ID != mcp.StringID("init") || m.Result == nil {
		t.Fatalf("got %+v", m)
	}
	if a := c.post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestPost_Accept(t *testing.T) {
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		x.Peer.Notify(note(mcp.NotificationProgress, `{"progressToken":1,"progress":1}`))
		return echo(x), nil
	}
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	if m := c.post(req("1", "work", "{}"), "Accept: application/json").message(t); m.Result == nil {
		t.Errorf("got %+v", m)
	}
	stream := c.listen()
	if m := c.post(req("2", "work", "{}"), "Accept: application/json").message(t); m.Result == nil {
		t.Errorf("got %+v", m)
	}
	if m := stream.message(); m.Method != mcp.NotificationProgress {
		t.Errorf("the session's stream got %+v", m)
	}
	b.do = nil
	if a := c.post(req("3", "echo", "{}"), "Accept: text/event-stream"); a.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(a.body, `"id":3,"result":{}`) {
		t.Errorf("got %v %q", a.header, a.body)
	}
}

func TestPost_IDInFlight(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	b.do = do
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	first := c.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)
	if a := c.post(req("1", "echo", "{}")); a.status != 400 || a.code(t) != -32600 || a.message(t).ID != mcp.IntID(1) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := c.post(req(`"1"`, "echo", "{}")); a.status != 200 {
		t.Errorf("a string is another id: %d %s", a.status, a.body)
	}
	if a := newWire(t, srv).initialize(mcp.V20251125).post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("another session's ids are its own: %d %s", a.status, a.body)
	}
	close(release)
	if a := receive(t, "the answer", first); a.status != 200 || a.message(t).Result == nil {
		t.Errorf("%+v", a)
	}
	if a := c.post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("an answered id is free: %d %s", a.status, a.body)
	}
}

func TestPost_CancelOwnRequestsOnly(t *testing.T) {
	b := newFakeBackend()
	do, entered, _, cancelled := held()
	b.do = do
	_, srv := serve(t, b, nil, nil)
	c, other := newWire(t, srv).initialize(mcp.V20251125), newWire(t, srv).initialize(mcp.V20251125)
	first := c.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for _, a := range []*answer{other.post(cancel), c.post(strings.Replace(cancel, "1}", `"1"}`, 1)), c.post(strings.Replace(cancel, "1}", `[]}`, 1))} {
		if a.status != 202 || a.body != "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if len(cancelled) != 0 {
		t.Error("another client cancelled it")
	}
	if a := c.post(cancel); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if m := receive(t, "the answer", first).message(t); m.ID != mcp.IntID(1) || m.Error == nil || m.Error.Message != errCancelled.Message {
		t.Errorf("got %+v", m)
	}
}

func TestPost_DisconnectDoesNotCancel(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, cancelled := held()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	ctx, disconnect := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := c.client.Do(c.request(ctx, "POST", "/mcp", req("1", "hold", "{}"))); err == nil {
			resp.Body.Close()
		}
	}()
	receive(t, "the request", entered)
	disconnect()
	<-gone
	// The server has noticed, and still plays the exchange out.
	eventually(t, "the disconnection", func() bool { return inspect(t, g, c).Calls == 0 })
	select {
	case err := <-cancelled:
		t.Errorf("cancelled: %v", err)
	default:
	}
	close(release)
	eventually(t, "the id to be free", func() bool { return c.post(req("1", "echo", "{}")).status == 200 })
}

func TestPost_NotificationsAreForwarded(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	for _, method := range []string{"notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed"} {
		if a := c.post(`{"jsonrpc":"2.0","method":"` + method + `","params":{}}`); a.status != 202 || a.body != "" {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	conn := receive(t, "the connection", b.conns)
	if m := receive(t, "the notification", conn.notes); m.Method != "notifications/roots/list_changed" || len(conn.notes) != 0 {
		t.Errorf("got %+v and %d more", m, len(conn.notes))
	}
}

func TestBatch(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20250326)
	a := c.post(`[` + req("1", "echo", `{"a":1}`) + `,{"jsonrpc":"2.0","method":"notifications/x"},` + req(`"2"`, "echo", `{"a":2}`) + `,` + req("1", "echo", `{"a":3}`) + `]`)
	messages, batch, err := mcp.ParseBatch([]byte(a.body))
	if err != nil || !batch || a.status != 200 {
		t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	got := map[string]int{}
	for _, m := range messages {
		got[m.ID.String()+string(m.Result)]++
	}
	// The third has the first one's id: whichever came second may be refused.
	if got[`"2"{"a":2}`] != 1 || len(messages) != 3 || got[`1{"a":1}`]+got[`1{"a":3}`] == 0 {
		t.Errorf("got %v", got)
	}
	if m := receive(t, "the notification", receive(t, "the connection", b.conns).notes); m.Method != "notifications/x" {
		t.Errorf("got %+v", m)
	}
	if a := c.post(`[{"jsonrpc":"2.0","method":"notifications/x"}]`); a.status != 202 {
		t.Errorf("a batch of notifications: %d %s", a.status, a.body)
	}
}

// As for a request alone: 404 is what makes a client initialize again.
func TestBatch_SessionLost(t *testing.T) {
	b := newFakeBackend()
	b.do = func(_ context.Context, c *fakeConn, _ *exchange.Exchange) (*mcp.Message, error) {
		c.lose()
		return nil, &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "gone"}
	}
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20250326)
	if a := c.post(`[` + req("1", "echo", "{}") + `]`); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestDelete(t *testing.T) {
	b := newFakeBackend()
	do, entered, _, cancelled := held()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	stream := c.listen()
	pending := c.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)
	if a := c.send("DELETE", "/mcp", ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := receive(t, "the cancellation", cancelled); err == nil || err.Error() != errDeleted.Error() {
		t.Errorf("cancelled because of %v", err)
	}
	if m := receive(t, "the answer", pending).message(t); m.Error == nil || m.ID != mcp.IntID(1) {
		t.Errorf("got %+v", m)
	}
	if m := stream.message(); m != nil {
		t.Errorf("the stream goes on: %+v", m)
	}
	if conn := receive(t, "the end of the connection", b.ended); conn != receive(t, "it", b.conns) {
		t.Error("another connection was closed")
	}
	if a := c.post(req("2", "echo", "{}")); a.status != 404 || a.code(t) != -32001 || a.message(t).ID != mcp.IntID(2) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if g.Sessions() != 0 {
		t.Errorf("%d sessions", g.Sessions())
	}
}

func TestSessions_ServerGone(t *testing.T) {
	b := newFakeBackend()
	g, srv := serve(t, b, nil, nil)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		c := newWire(t, srv).initialize(mcp.V20251125)
		receive(t, "the connection", b.conns).lose()
		if a := c.send(method, "/mcp", req("3", "echo", "{}")); a.status != 404 || a.code(t) != -32001 {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	// The end of its stream notifies a client that only listens.
	c := newWire(t, srv).initialize(mcp.V20251125)
	stream := c.listen()
	receive(t, "the connection", b.conns).lose()
	if m := stream.message(); m != nil {
		t.Errorf("got %+v", m)
	}
	eventually(t, "no session to be left", func() bool { return g.Sessions() == 0 })
	c.initialize(mcp.V20251125)
	if a := c.post(req("3", "echo", "{}")); a.status != 200 {
		t.Errorf("after another initialize: %d %s", a.status, a.body)
	}
}

func TestSessions_Expire(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	b.do = do
	g, srv := serve(t, b, func(c *Config) { c.Endpoint.SessionTTL = time.Hour }, nil)
	idle, listening, busy := newWire(t, srv).initialize(mcp.V20251125), newWire(t, srv).initialize(mcp.V20251125), newWire(t, srv).initialize(mcp.V20251125)
	listening.listen()
	answered := busy.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)

	g.store.Expire(time.Now().Add(59 * time.Minute))
	if g.Sessions() != 3 {
		t.Fatalf("%d sessions before the TTL", g.Sessions())
	}
	g.store.Expire(time.Now().Add(61 * time.Minute))
	if a := idle.post(req("1", "echo", "{}")); a.status != 404 || a.code(t) != -32001 {
		t.Errorf("idle: %d %s", a.status, a.body)
	}
	for name, c := range map[string]*wire{"listening": listening, "busy": busy} {
		if a := c.post(req("2", "echo", "{}")); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	close(release)
	receive(t, "the answer", answered)
	receive(t, "the end of the idle one's connection", b.ended)
	if len(b.ended) != 0 {
		t.Errorf("%d more connections were closed", len(b.ended))
	}
}

func TestSessions_EvictTheIdlest(t *testing.T) {
	b := newFakeBackend()
	g, srv := serve(t, b, nil, nil)
	g.core.MaxSessions = 20
	var all []*wire
	for range 20 {
		all = append(all, newWire(t, srv).initialize(mcp.V20251125))
	}
	all[0].post(req("1", "echo", "{}")) // used: not the oldest any more
	newWire(t, srv).initialize(mcp.V20251125)
	for i, want := range map[int]int{0: 200, 1: 404, 2: 404, 3: 404, 4: 200, 19: 200} {
		if a := all[i].post(req("1", "echo", "{}")); a.status != want {
			t.Errorf("session %d: %d", i, a.status)
		}
	}
}

// A client that sees its session's stream end, and cannot open another, may give up
// all that is in flight (the Go SDK's does): the answers come first.
func TestListen_EndsAfterResponses(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	b.do = do
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Settle = patience })
	c := newWire(t, srv).initialize(mcp.LatestSession)
	e := c.listen()
	outcome := c.background(req("1", "hold", `{}`))
	receive(t, "the call", entered)
	receive(t, "the connection", b.conns).lose()
	select {
	case line := <-e.lines:
		t.Fatalf("the stream went on with %q, or ended", line)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if a := receive(t, "the answer", outcome); a.status != 200 || a.code(t) != 0 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if m := e.message(); m != nil {
		t.Errorf("the stream went on with %s", m.Encode())
	}
}

func TestSessionID_HeaderTwice(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	for _, other := range []string{"x", c.session} {
		conn := raw(t, srv.Listener.Addr().String(), "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: "+c.session+"\r\nmcp-session-id: "+other+"\r\nConnection: close\r\n\r\n")
		b, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 400 ") {
			t.Errorf("%v, %.60q", err, b)
		}
	}
	if a := c.post(req("1", "ping", `{}`)); a.status != 200 {
		t.Errorf("the session is gone: %s", a.body)
	}
}
