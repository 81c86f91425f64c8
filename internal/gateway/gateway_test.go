package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestNew_ReportsAllFaults(t *testing.T) {
	_, err := New(Config{Name: "x", Endpoint: endpoint.Config{Mode: "carrier-pigeon", SessionTTL: -1, Prefix: "//evil.example", AllowedHosts: []string{"a b", "http://x"}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"x"`, "backend", "carrier-pigeon", "TTL", "//evil.example", `"a b"`, `"http://x"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	for _, prefix := range []string{"tools", "/a?b", "/a#b", "/a\nb", `/a\b`, "/a//b"} {
		if _, err := New(Config{Backend: newFakeBackend(), Endpoint: endpoint.Config{Mode: endpoint.SSE, Prefix: prefix}}); err == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
	if _, err := New(Config{Backend: newFakeBackend(), Endpoint: endpoint.Config{Mode: endpoint.SSE, Stateless: true}}); err == nil {
		t.Error("sse without sessions is accepted")
	}
}

func TestHealth(t *testing.T) {
	state, reason := "running", ""
	_, srv := serve(t, newFakeBackend(), func(c *Config) {
		c.Version = "1.2.3"
		c.Status = func() (string, string) { return state, reason }
	}, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	for _, tt := range []struct {
		state, reason string
		status        int
		body          string
	}{
		{"running", "", 200, `{"status":"healthy","workload":"test","mode":"streamable-http","sessions":1,"version":"1.2.3"}`},
		{"degraded", "the server ended", 503, `{"status":"degraded","reason":"the server ended","workload":"test","mode":"streamable-http","sessions":1,"version":"1.2.3"}`},
		{"starting", "", 503, `{"status":"starting","workload":"test","mode":"streamable-http","sessions":1,"version":"1.2.3"}`},
	} {
		state, reason = tt.state, tt.reason
		a := c.send("GET", "/health", "")
		if d := cmp.Diff(tt.body, a.body); d != "" || a.status != tt.status {
			t.Errorf("%d, %s", a.status, d)
		}
	}
}

func TestInitialize_UnreachableServer(t *testing.T) {
	state := "running"
	b := newFakeBackend()
	refusal := error(fmt.Errorf("dial the server: %w", errRefused))
	b.open = func(context.Context, *fakeConn) error { return refusal }
	for _, stateless := range []bool{false, true} {
		g, srv := serve(t, b, func(c *Config) {
			c.Endpoint.Stateless = stateless
			c.Status = func() (string, string) { return state, "" }
		}, nil)
		c := newWire(t, srv)
		for _, tt := range []struct {
			state       string
			err         error
			status, rpc int
			message     string
		}{
			{"running", fmt.Errorf("dial the server: %w", errRefused), 502, -32000, "dial the server: connection refused"},
			{"degraded", fmt.Errorf("dial the server: %w", errRefused), 503, -32000, "dial the server: connection refused"},
			{"running", &mcp.Error{Code: -32602, Message: "the server's own words"}, 200, -32602, "the server's own words"},
		} {
			state, refusal = tt.state, tt.err
			a := c.post(initBody)
			m := a.message(t)
			if a.status != tt.status || m.ID != mcp.StringID("init") || m.Error == nil || m.Error.Code != tt.rpc || m.Error.Message != tt.message {
				t.Errorf("stateless %v: %d %s", stateless, a.status, a.body)
			}
			if a.header.Get("Mcp-Session-Id") != "" || g.Sessions() != 0 {
				t.Errorf("a session remains: %v", a.header)
			}
		}
	}
}

func TestInitialize_UnsupportedServerVersion(t *testing.T) {
	b := newFakeBackend()
	b.info = `{"protocolVersion":"2031-01-01","capabilities":{}}`
	_, srv := serve(t, b, nil, nil)
	if a := newWire(t, srv).post(initBody); a.status != 502 || a.code(t) != -32000 {
		t.Errorf("%d %s", a.status, a.body)
	}
	receive(t, "the end of the connection", b.ended)
}

func TestOutcome_InvalidResponses(t *testing.T) {
	b := newFakeBackend()
	answers := map[string]func(*exchange.Exchange) (*mcp.Message, error){
		"nothing": func(*exchange.Exchange) (*mcp.Message, error) { return nil, nil },
		"another's reply": func(*exchange.Exchange) (*mcp.Message, error) {
			return mcp.NewResult(mcp.IntID(2), json.RawMessage(`{}`)), nil
		},
		"no result": func(x *exchange.Exchange) (*mcp.Message, error) { return &mcp.Message{ID: x.Request.ID}, nil },
		"a request": func(x *exchange.Exchange) (*mcp.Message, error) { return x.Request, nil },
		"a panic":   func(*exchange.Exchange) (*mcp.Message, error) { panic("boom") },
		"an error":  func(*exchange.Exchange) (*mcp.Message, error) { return nil, errRefused },
		"an error of ours": func(*exchange.Exchange) (*mcp.Message, error) {
			return nil, &mcp.Error{Code: -32099, Message: "policy"}
		},
		"the server's error": func(x *exchange.Exchange) (*mcp.Message, error) {
			return mcp.NewError(x.Request.ID, -32601, "unknown tool"), nil
		},
	}
	want := map[string]int{"nothing": -32603, "another's reply": -32603, "no result": -32603, "a request": -32603, "a panic": -32603,
		"an error": -32000, "an error of ours": -32099, "the server's error": -32601}
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		return answers[x.Request.Method](x)
	}
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	for method, code := range want {
		a := c.post(req("1", method, "{}"))
		if m := a.message(t); a.status != 200 || m.ID != mcp.IntID(1) || a.code(t) != code {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
}

func TestStatelessGateway(t *testing.T) {
	b := newFakeBackend()
	b.do = func(ctx context.Context, c *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		switch x.Request.Method {
		case "ask":
			return asking(ctx, c, x)
		case "progress":
			x.Peer.Notify(note(mcp.NotificationProgress, `{"progressToken":1,"progress":1}`))
		}
		return echo(x), nil
	}
	g, srv := serve(t, b, func(c *Config) { c.Endpoint.Stateless, c.Endpoint.SessionTTL = true, time.Hour }, nil)
	c := newWire(t, srv)
	for method, allow := range map[string]string{"GET": "POST, OPTIONS", "DELETE": "POST, OPTIONS"} {
		if a := c.send(method, "/mcp", ""); a.status != 405 || a.header.Get("Allow") != allow {
			t.Errorf("%s: %d %v", method, a.status, a.header)
		}
	}
	if a := c.post(initBody); a.status != 200 || a.header.Get("Mcp-Session-Id") != "" || a.message(t).Result == nil {
		t.Errorf("initialize: %d %v %s", a.status, a.header, a.body)
	}
	version := "Mcp-Protocol-Version: 2025-11-25"
	if a := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, version); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := c.post(req("1", "echo", `{"a":1}`), version, "Mcp-Session-Id: whatever"); a.status != 200 || string(a.message(t).Result) != `{"a":1}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := c.post(req("1", "progress", `{}`), version); a.header.Get("Content-Type") != "text/event-stream" || strings.Count(a.body, "data: ") != 2 {
		t.Errorf("%v %s", a.header, a.body)
	}
	if a := c.post(req("1", "ask", `{}`), version); a.code(t) != mcp.CodeMethodNotFound {
		t.Errorf("%s", a.body)
	}
	first := receive(t, "the connection", b.conns)
	if len(b.conns) != 0 {
		t.Error("the connection is not shared")
	}
	if a := c.post("[" + req("1", "echo", "{}") + "]"); a.status != 200 || receive(t, "another", b.conns).client.Version != mcp.V20250326 {
		t.Errorf("a client that names no version has its own connection: %d", a.status)
	}
	first.lose()
	if a := c.post(req("2", "echo", "{}"), version); a.status != 200 {
		t.Errorf("after the server ended: %d %s", a.status, a.body)
	}
	receive(t, "a connection again", b.conns)
	receive(t, "the end of the one that was lost", b.ended)
	g.store.Expire(time.Now().Add(2 * time.Hour))
	receive(t, "the end of the idle one", b.ended)
	receive(t, "the end of the idle one", b.ended)
}

func TestStatelessGateway_OneConnection(t *testing.T) {
	b := newFakeBackend()
	b.open = func(context.Context, *fakeConn) error { time.Sleep(5 * time.Millisecond); return nil }
	_, srv := serve(t, b, func(c *Config) { c.Endpoint.Stateless = true }, nil)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			want := fmt.Sprintf(`{"a":%d}`, i)
			a := newWire(t, srv).background(req("1", "echo", want))
			if a := <-a; a == nil || !strings.Contains(a.body, want) {
				t.Errorf("got %+v", a)
			}
		})
	}
	all.Wait()
	if len(b.conns) != 1 {
		t.Errorf("%d connections", len(b.conns))
	}
}

func TestClose_WaitsForRequests(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	stream := c.listen()
	pending := c.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)
	closed := make(chan error, 1)
	go func() { closed <- g.Close(context.Background()) }()
	eventually(t, "new requests to be refused", func() bool { return c.post(req("2", "echo", "{}")).status == 503 })
	if a := c.post(initBody); a.status != 503 || a.code(t) != -32000 || a.header.Get("Retry-After") == "" {
		t.Errorf("initialize: %d %s", a.status, a.body)
	}
	select {
	case err := <-closed:
		t.Fatalf("closed before the answer: %v", err)
	default:
	}
	close(release)
	if m := receive(t, "the answer", pending).message(t); m.Result == nil {
		t.Errorf("got %+v", m)
	}
	if err := receive(t, "the close", closed); err != nil {
		t.Error(err)
	}
	if m := stream.message(); m != nil {
		t.Errorf("the stream goes on: %+v", m)
	}
	if err := g.Close(context.Background()); err != nil || b.closed != 1 {
		t.Errorf("a second close: %v, backend closed %d times", err, b.closed)
	}
}

func TestClose_CancelsAfterTheDeadline(t *testing.T) {
	b := newFakeBackend()
	do, entered, _, _ := held()
	b.do = do
	g, err := New(Config{Backend: b, Name: "w", Endpoint: endpoint.Config{Mode: endpoint.Streamable}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	defer srv.Close()
	c := newWire(t, srv).initialize(mcp.V20251125)
	pending := c.background(req("1", "hold", "{}"))
	receive(t, "the request", entered)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 requests") {
		t.Errorf("got %v", err)
	}
	if m := receive(t, "the answer", pending).message(t); m.Error == nil || m.Error.Message != httpd.ErrStopping.Message {
		t.Errorf("got %+v", m)
	}
}

func TestStages_Order(t *testing.T) {
	var got []string
	stage := func(name string) exchange.Stage {
		return func(next exchange.Handler) exchange.Handler {
			return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
				got = append(got, name+" "+x.Request.Method)
				if x.Request.Method == "forbidden" {
					return nil, &mcp.Error{Code: -32003, Message: "no"}
				}
				return next(ctx, x)
			}
		}
	}
	b := newFakeBackend()
	g, srv := serve(t, b, nil, nil)
	g.core.Handler = chain(exchange.Deliver, recovered(g.core.Log), stage("a"), stage("b"))
	c := newWire(t, srv).initialize(mcp.V20251125)
	if a := c.post(req("1", "forbidden", "{}")); a.code(t) != -32003 {
		t.Errorf("%s", a.body)
	}
	if d := cmp.Diff([]string{"a initialize", "b initialize", "a forbidden"}, got); d != "" {
		t.Error(d)
	}
}

func TestLog_HasNoSecrets(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	b := newFakeBackend()
	_, srv := serve(t, b, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	c.post(`{"jsonrpc":"2.0","id":5,"result":{"password":"hunter2"}}`)
	b.do = func(context.Context, *fakeConn, *exchange.Exchange) (*mcp.Message, error) { panic("boom") }
	c.post(req("1", "x", `{"password":"hunter2"}`))
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "boom") || strings.Contains(log.String(), "hunter2") || strings.Contains(log.String(), c.session) {
		t.Errorf("log: %s", log.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Same ids from everybody, on one server: everybody gets their own answer.
func TestCalls_EqualIDsOfManyClients(t *testing.T) {
	const clients, rounds = 50, 100
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		x.Peer.Notify(note(mcp.NotificationProgress, string(x.Request.Params)))
		runtime.Gosched()
		return echo(x), nil
	}
	_, srv := serve(t, b, nil, nil)
	srv.Client().Transport = newTransport(clients)
	defer srv.Client().CloseIdleConnections()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := newWire(t, srv)
			a := <-c.background(initBody)
			c.session = a.header.Get("Mcp-Session-Id")
			for round := range rounds {
				mine := fmt.Sprintf(`{"client":%d,"round":%d}`, n, round)
				want := "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":" + mine + "}\n\n" +
					"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + mine + "}\n\n"
				if a := <-c.background(req("1", "work", mine)); a == nil || withoutIDs(a.body) != want {
					t.Errorf("client %d, round %d got %+v", n, round, a)
					return
				}
			}
		})
	}
	all.Wait()
}

// withoutIDs is the text of an event stream without ids, and so without priming
// events.
func withoutIDs(events string) string {
	return eventIDs.ReplaceAllString(events, "")
}

var eventIDs = regexp.MustCompile(`id: [0-9a-z-]+\n(retry: 1000\ndata: \n\n)?`)

func TestSessions_ReleaseEverything(t *testing.T) {
	cycles := 10_000
	if raceEnabled {
		cycles = 1_000 // the detector keeps memory of its own
	}
	b := newFakeBackend()
	g, srv := serve(t, b, nil, nil)
	cycle := func(n int) {
		for range n {
			c := newWire(t, srv).initialize(mcp.V20251125)
			if a := c.post(req("1", "echo", `{}`)); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if a := c.send("DELETE", "/mcp", ""); a.status != 204 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			receive(t, "the connection", b.conns)
			receive(t, "its end", b.ended)
		}
	}
	used := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	cycle(200)
	before, goroutines := used(), runtime.NumGoroutine()
	cycle(cycles)
	after := used()
	t.Logf("%d cycles: %d KiB before, %d KiB after", cycles, before>>10, after>>10)
	// The server's side of the last connections may still be ending.
	eventually(t, "the memory of before", func() bool { return used()-before <= 256<<10 })
	eventually(t, "the goroutines of before", func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	if g.Sessions() != 0 {
		t.Errorf("%d sessions", g.Sessions())
	}
}

func TestSessions_Sweep(t *testing.T) {
	b := newFakeBackend()
	g, srv := serve(t, b, func(c *Config) { c.Endpoint.SessionTTL = time.Millisecond }, nil)
	newWire(t, srv).initialize(mcp.V20251125)
	receive(t, "the end of the connection", b.ended)
	if g.Sessions() != 0 {
		t.Errorf("%d sessions", g.Sessions())
	}
}

func TestRoutes_TrailingSlash(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv)
	a := c.send(http.MethodPost, "/mcp/", initBody)
	if c.session = a.header.Get("Mcp-Session-Id"); a.status != 200 || c.session == "" {
		t.Fatalf("POST /mcp/: %d %s", a.status, a.body)
	}
	if a := c.send(http.MethodDelete, "/mcp/", ""); a.status != 204 {
		t.Errorf("DELETE /mcp/: %d %s", a.status, a.body)
	}
	if a := c.send(http.MethodGet, "/health/", ""); a.status != 200 {
		t.Errorf("GET /health/: %d %s", a.status, a.body)
	}
}
