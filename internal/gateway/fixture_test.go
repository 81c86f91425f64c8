package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// patience bounds every wait of a test; it is never waited out when all is well.
const patience = time.Minute

// fakeBackend is a server in memory. What it does with a request is do's
// business; by default it echoes params.
type fakeBackend struct {
	exchange.BackendDefaults
	info string // InitializeResult; "" is one of the client's version
	open func(ctx context.Context, c *fakeConn) error
	do   func(ctx context.Context, c *fakeConn, x *exchange.Exchange) (*mcp.Message, error)
	// notify takes a notification; nil keeps it in the connection's notes.
	notify func(ctx context.Context) error
	conns  chan *fakeConn // every connection that was opened
	ended  chan *fakeConn // every connection that was closed

	mu     sync.Mutex
	closed int
}

type fakeConn struct {
	exchange.ConnDefaults
	b       *fakeBackend
	client  *exchange.Client
	session exchange.Peer
	notes   chan *mcp.Message
	done    chan struct{}
	once    sync.Once
}

func newFakeBackend() *fakeBackend {
	return &fakeBackend{conns: make(chan *fakeConn, 100_000), ended: make(chan *fakeConn, 100_000)}
}

// Do handles a request of a stateless client as a connection would.
func (b *fakeBackend) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	conn, err := b.Open(ctx, x.Client, x.Peer)
	if err != nil {
		return nil, err
	}
	return conn.Do(ctx, x)
}

func (b *fakeBackend) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	c := &fakeConn{b: b, client: client, session: session, notes: make(chan *mcp.Message, 16), done: make(chan struct{})}
	if b.open != nil {
		if err := b.open(ctx, c); err != nil {
			return nil, err
		}
	}
	b.conns <- c
	return c, nil
}

func (b *fakeBackend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	return nil
}

func (c *fakeConn) InitializeResult() json.RawMessage {
	if c.b.info != "" {
		return json.RawMessage(c.b.info)
	}
	return json.RawMessage(`{"protocolVersion":"` + string(c.client.Version) + `","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`)
}

func (c *fakeConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if c.b.do != nil {
		return c.b.do(ctx, c, x)
	}
	return echo(x), nil
}

func echo(x *exchange.Exchange) *mcp.Message {
	params := x.Request.Params
	if params == nil {
		params = json.RawMessage(`{}`)
	}
	return mcp.NewResult(x.Request.ID, params)
}

func (c *fakeConn) Notify(ctx context.Context, m *mcp.Message) error {
	if c.b.notify != nil {
		return c.b.notify(ctx)
	}
	c.notes <- m
	return nil
}

func (c *fakeConn) Done() <-chan struct{} { return c.done }
func (c *fakeConn) lose()                 { c.once.Do(func() { close(c.done) }) }
func (c *fakeConn) Close() error          { c.lose(); c.b.ended <- c; return nil }

// serve starts a gateway over b and the HTTP server of it, and closes both.
func serve(t testing.TB, b exchange.Backend, change func(*Config), hurry func(*httpd.Timing)) (*Gateway, *httptest.Server) {
	t.Helper()
	cfg := Config{Backend: b, Name: "test", Endpoint: endpoint.Config{Mode: endpoint.Streamable}}
	if change != nil {
		change(&cfg)
	}
	// A slow machine must not make these happen.
	timing := httpd.DefaultTiming()
	timing.Quiet, timing.AskGrace, timing.Settle, timing.Room = patience, patience, patience, patience
	if hurry != nil {
		hurry(&timing)
	}
	g, err := newGateway(cfg, timing)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("close the gateway: %v", err)
		}
		srv.Close()
		eventually(t, "all budgets to be full again", g.owesNothing)
	})
	return g, srv
}

// owesNothing: all that was taken from the gateway's budgets was given back.
func (g *Gateway) owesNothing() bool { return g.core.Inbound.Used() == 0 && g.core.Held.Used() == 0 }

// wire is a client that shows what goes over the wire.
type wire struct {
	t       testing.TB
	url     string
	session string
	client  *http.Client
}

func newWire(t testing.TB, srv *httptest.Server) *wire {
	return &wire{t: t, url: srv.URL, client: srv.Client()}
}

const initBody = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`

// initialize begins a session with the version.
func (c *wire) initialize(v mcp.Version) *wire {
	c.t.Helper()
	a := c.post(strings.Replace(initBody, "2025-11-25", string(v), 1))
	if c.session = a.header.Get("Mcp-Session-Id"); a.status != 200 || c.session == "" {
		c.t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	return c
}

type answer struct {
	status int
	header http.Header
	body   string
}

// request makes a request of a client like any; headers are "Name: value", and
// one without a value is removed.
func (c *wire) request(ctx context.Context, method, path, body string, headers ...string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

func (c *wire) do(r *http.Request) *answer {
	c.t.Helper()
	resp, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return &answer{resp.StatusCode, resp.Header, string(b)}
}

func (c *wire) send(method, path, body string, headers ...string) *answer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.do(c.request(ctx, method, path, body, headers...))
}

func (c *wire) post(body string, headers ...string) *answer {
	c.t.Helper()
	return c.send(http.MethodPost, "/mcp", body, headers...)
}

// message reads the answer as one JSON-RPC message.
func (a *answer) message(t testing.TB) *mcp.Message {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Fatalf("content type %q, body %q", got, a.body)
	}
	m, err := mcp.Parse([]byte(a.body))
	if err != nil {
		t.Fatalf("%v: %q", err, a.body)
	}
	return m
}

func (a *answer) code(t testing.TB) int {
	t.Helper()
	if m := a.message(t); m.Error != nil {
		return m.Error.Code
	}
	return 0
}

// events is an open event stream.
type events struct {
	t      testing.TB
	status int
	header http.Header
	close  context.CancelFunc
	lines  chan string // data of events, comments with their colon; closed at the end
	ids    chan string // of events, in order
}

// stream sends a request and reads its answer as it comes.
func (c *wire) stream(method, path, body string, headers ...string) *events {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := c.client.Do(c.request(ctx, method, path, body, headers...))
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	e := &events{t: c.t, status: resp.StatusCode, header: resp.Header, close: cancel, lines: make(chan string, 100_000), ids: make(chan string, 100_000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(e.lines)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, mcp.MaxEvent+100)
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "id: "):
				e.ids <- line[len("id: "):]
			case line == "data: ": // a priming event
			case strings.HasPrefix(line, "data: "):
				e.lines <- line[len("data: "):]
			case strings.HasPrefix(line, ":"):
				e.lines <- line
			}
		}
	}()
	c.t.Cleanup(func() { cancel(); <-read })
	return e
}

func (c *wire) listen() *events {
	c.t.Helper()
	e := c.stream(http.MethodGet, "/mcp", "", "Accept: text/event-stream")
	if e.status != 200 || e.header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("GET: %d %v", e.status, e.header)
	}
	return e
}

// next is the next line of the stream, "" at its end.
func (e *events) next() string {
	e.t.Helper()
	select {
	case line := <-e.lines:
		return line
	case <-time.After(patience):
		e.t.Fatal("nothing came on the stream")
		return ""
	}
}

// message is the next message, over comments; nil at the stream's end.
func (e *events) message() *mcp.Message {
	e.t.Helper()
	for {
		line := e.next()
		if strings.HasPrefix(line, ":") {
			continue
		}
		if line == "" {
			return nil
		}
		m, err := mcp.Parse([]byte(line))
		if err != nil {
			e.t.Fatalf("%v: %q", err, line)
		}
		return m
	}
}

func req(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func note(method, params string) *mcp.Message {
	return &mcp.Message{Method: method, Params: json.RawMessage(params)}
}

// receive takes from ch with patience.
func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// background sends a POST and gives its answer when it comes.
func (c *wire) background(body string, headers ...string) <-chan *answer {
	out := make(chan *answer, 1)
	go func() {
		defer close(out)
		r := c.request(context.Background(), http.MethodPost, "/mcp", body, headers...)
		resp, err := c.client.Do(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err == nil {
			out <- &answer{resp.StatusCode, resp.Header, b.String()}
		}
	}()
	return out
}

// held is a backend's do whose "hold" requests wait until release is closed or
// they are cancelled; entered receives each of them.
func held() (do func(context.Context, *fakeConn, *exchange.Exchange) (*mcp.Message, error), entered chan *exchange.Exchange, release chan struct{}, cancelled chan error) {
	entered, release, cancelled = make(chan *exchange.Exchange, 100), make(chan struct{}), make(chan error, 100)
	do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method != "hold" {
			return echo(x), nil
		}
		entered <- x
		select {
		case <-release:
			return echo(x), nil
		case <-ctx.Done():
			cancelled <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	}
	return do, entered, release, cancelled
}

var errRefused = errors.New("connection refused")

// newTransport keeps enough connections for so many clients at once.
func newTransport(clients int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: clients, MaxIdleConns: clients}
}
