package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// lastingServer is a server whose sessions do not end with a connection: what a
// fakeBackend is, and it knows the handles that it gave.
type lastingServer struct {
	mu       sync.Mutex
	sessions map[string]bool
	last     int
}

// lastingBackend is one gateway's way to it.
type lastingBackend struct {
	*fakeBackend
	server  *lastingServer
	noted   chan *lastingConn
	refuse  error
	mute    bool // its connections have no handle
	padding int  // of handles
}

type lastingConn struct {
	*fakeConn
	b       *lastingBackend
	id      string
	left    bool
	resumed bool
}

func newLastingBackend(server *lastingServer) *lastingBackend {
	return &lastingBackend{fakeBackend: newFakeBackend(), server: server, noted: make(chan *lastingConn, 100)}
}

func (b *lastingBackend) connect(ctx context.Context, client *exchange.Client, session exchange.Peer, id string) (*lastingConn, error) {
	c, err := b.fakeBackend.Open(ctx, client, session)
	if err != nil {
		return nil, err
	}
	return &lastingConn{fakeConn: c.(*fakeConn), b: b, id: id}, nil
}

func (b *lastingBackend) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	b.server.mu.Lock()
	b.server.last++
	id := strings.Repeat("i", b.server.last) + strings.Repeat("x", b.padding)
	if b.server.sessions == nil {
		b.server.sessions = map[string]bool{}
	}
	b.server.sessions[id] = true
	b.server.mu.Unlock()
	c, err := b.connect(ctx, client, session, id)
	if err != nil {
		return nil, err
	}
	b.noted <- c
	return c, nil
}

func (b *lastingBackend) Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error) {
	if b.refuse != nil {
		return nil, b.refuse
	}
	c, err := b.connect(ctx, client, session, string(handle))
	if err != nil {
		return nil, err
	}
	c.resumed = true
	b.noted <- c
	return c, nil
}

func (c *lastingConn) Handle() ([]byte, bool) { return []byte(c.id), !c.b.mute }

func (c *lastingConn) Leave() error { c.left = true; return c.fakeConn.Close() }

func (c *lastingConn) Close() error {
	if !c.left {
		c.b.server.mu.Lock()
		delete(c.b.server.sessions, c.id)
		c.b.server.mu.Unlock()
	}
	return c.fakeConn.Close()
}

func (c *lastingConn) known() error {
	c.b.server.mu.Lock()
	defer c.b.server.mu.Unlock()
	if c.b.server.sessions[c.id] {
		return nil
	}
	c.lose()
	return &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "no such session here"}
}

func (c *lastingConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if err := c.known(); err != nil {
		return nil, err
	}
	return c.fakeConn.Do(ctx, x)
}

func (c *lastingConn) Notify(ctx context.Context, m *mcp.Message) error {
	if err := c.known(); err != nil {
		return err
	}
	return c.fakeConn.Notify(ctx, m)
}

func (c *lastingConn) Listen() { _ = c.known() }

// start starts a gateway with the key.
func (s *lastingServer) start(t testing.TB, key []byte, change func(*Config, *lastingBackend)) (*Gateway, *httptest.Server, *lastingBackend) {
	t.Helper()
	b := newLastingBackend(s)
	g, srv := serve(t, b, func(c *Config) {
		c.Key = key
		if change != nil {
			change(c, b)
		}
	}, nil)
	return g, srv, b
}

// begin begins a session at a gateway that then ends.
func (s *lastingServer) begin(t testing.TB, key []byte, change func(*Config, *lastingBackend)) string {
	t.Helper()
	g, srv, _ := s.start(t, key, change)
	id := newWire(t, srv).initialize(mcp.V20251125).session
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRestart_SessionIsResumed(t *testing.T) {
	key := seal.NewKey()
	for name, first := range map[string]func(*testing.T, *wire){
		"a request": func(t *testing.T, c *wire) {
			if a := c.post(req("1", "echo", `{"a":1}`)); a.status != 200 || string(a.message(t).Result) != `{"a":1}` {
				t.Errorf("%d %s", a.status, a.body)
			}
		},
		"a notification": func(t *testing.T, c *wire) {
			if a := c.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); a.status != 202 {
				t.Errorf("%d %s", a.status, a.body)
			}
		},
		"a stream": func(_ *testing.T, c *wire) { c.listen() },
	} {
		t.Run(name, func(t *testing.T) {
			server := &lastingServer{}
			g1, srv1, b1 := server.start(t, key, nil)
			c := newWire(t, srv1)
			a := c.post(strings.Replace(initBody, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1))
			c.session = a.header.Get("Mcp-Session-Id")
			before := receive(t, "the connection", b1.noted)
			if err := g1.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			g2, srv2, b2 := server.start(t, key, nil)
			c = &wire{t: t, url: srv2.URL, session: c.session, client: srv2.Client()}
			first(t, c)
			after := receive(t, "the connection", b2.noted)
			if !after.resumed || after.id != before.id {
				t.Errorf("not the same session: %q, before %q", after.id, before.id)
			}
			if d := cmp.Diff(before.client, after.client); d != "" {
				t.Error(d)
			}
			// From then on it is a session like any: it is found, not revived again.
			if a := c.post(req("2", "echo", `{}`)); a.status != 200 || len(b2.noted) != 0 || g2.Sessions() != 1 {
				t.Errorf("%d, %d more connections, %d sessions", a.status, len(b2.noted), g2.Sessions())
			}
			if a := c.send("DELETE", "/mcp", ""); a.status != 204 {
				t.Errorf("DELETE: %d", a.status)
			}
			if a := c.post(req("3", "echo", `{}`)); a.status != 404 || a.code(t) != -32001 || len(b2.noted) != 0 {
				t.Errorf("after DELETE: %d %s", a.status, a.body)
			}
			eventually(t, "the server to forget it", func() bool {
				server.mu.Lock()
				defer server.mu.Unlock()
				return len(server.sessions) == 0
			})
		})
	}
	t.Run("its end", func(t *testing.T) {
		server := &lastingServer{}
		id := server.begin(t, key, nil)
		_, srv, b := server.start(t, key, nil)
		c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
		if a := c.send("DELETE", "/mcp", ""); a.status != 204 {
			t.Errorf("%d %s", a.status, a.body)
		}
		receive(t, "the end of the connection", b.ended)
		if len(server.sessions) != 0 {
			t.Error("it goes on at the server")
		}
	})
}

func TestRestart_InvalidSessionID(t *testing.T) {
	key := seal.NewKey()
	server := &lastingServer{}
	id := server.begin(t, key, nil)
	forged, old := packToken(time.Now()), packToken(time.Now().Add(-7*24*time.Hour))
	for name, tt := range map[string]struct {
		id     string
		change func(*Config, *lastingBackend)
	}{
		"made up":                             {id: rand.Text()},
		"tampered with":                       {id: id[:len(id)-3] + strings.Map(another, id[len(id)-3:])},
		"cut off":                             {id: id[:len(id)-4]},
		"of another key":                      {id, func(c *Config, _ *lastingBackend) { c.Key = seal.NewKey() }},
		"of another workload":                 {id, func(c *Config, _ *lastingBackend) { c.Name = "other" }},
		"of another principal":                {id: sealToken(t, key, "session\x00test\x00somebody", forged)},
		"a seal of another use":               {id: sealToken(t, key, "requestState\x00test\x00", forged)},
		"too old":                             {id: sealToken(t, key, "session\x00test\x00", old)},
		"too long":                            {id: strings.Repeat("A", 100_000)},
		"not ASCII":                           {id: "\xc3\xa4"},
		"not continued by its server":         {id, func(_ *Config, b *lastingBackend) { b.refuse = exchange.ErrNotResumable }},
		"from before a restart without a key": {server.begin(t, nil, nil), func(c *Config, _ *lastingBackend) { c.Key = nil }},
		"of a connection that cannot be continued": {id: server.begin(t, key, func(_ *Config, b *lastingBackend) { b.mute = true })},
		"too large to be sealed":                   {id: server.begin(t, key, func(_ *Config, b *lastingBackend) { b.padding = 2 << 10 })},
	} {
		t.Run(name, func(t *testing.T) {
			g, srv, b := server.start(t, key, tt.change)
			c := &wire{t: t, url: srv.URL, session: tt.id, client: srv.Client()}
			for _, method := range []string{"POST", "GET", "DELETE"} {
				a := c.send(method, "/mcp", req("7", "echo", "{}"))
				if m := a.message(t); a.status != 404 || a.code(t) != -32001 || method == "POST" && m.ID != mcp.IntID(7) {
					t.Errorf("%s: %d %s", method, a.status, a.body)
				}
			}
			if g.Sessions() != 0 || len(b.noted) != 0 {
				t.Errorf("%d sessions, %d connections", g.Sessions(), len(b.noted))
			}
		})
	}
	// The id above was good all the time.
	_, srv, _ := server.start(t, key, nil)
	c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
	if a := c.post(req("7", "echo", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// another is another letter.
func another(r rune) rune {
	if r == 'A' {
		return 'B'
	}
	return 'A'
}

// packToken is the content of the id of a session that can be resumed (sessions/sessionid.go).
func packToken(issued time.Time) []byte {
	b := make([]byte, 16+8) // serial, issuer
	b = binary.AppendUvarint(b, uint64(issued.Unix()))
	for _, field := range []string{string(mcp.V20251125), `{}`, `{}`, ""} {
		b = append(binary.AppendUvarint(b, uint64(len(field))), field...)
	}
	return b
}

func sealToken(t *testing.T, key []byte, purpose string, content []byte) string {
	t.Helper()
	s, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return s.Close(purpose, content)
}

func TestRestart_ServerForgotTheSession(t *testing.T) {
	key := seal.NewKey()
	for name, body := range map[string]string{
		"POST a request":      req("7", "echo", "{}"),
		"POST a notification": `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		"GET":                 "",
	} {
		t.Run(name, func(t *testing.T) {
			server := &lastingServer{}
			id := server.begin(t, key, nil)
			server.sessions = nil
			g, srv, b := server.start(t, key, nil)
			c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
			method, _, _ := strings.Cut(name, " ")
			if a := c.send(method, "/mcp", body); a.status != 404 || a.code(t) != -32001 {
				t.Errorf("%d %s", a.status, a.body)
			}
			receive(t, "the connection", b.noted)
			if a := c.post(req("8", "echo", "{}")); a.status != 404 || a.code(t) != -32001 || a.message(t).ID != mcp.IntID(8) || len(b.noted) != 0 {
				t.Errorf("again: %d %s", a.status, a.body)
			}
			if g.Sessions() != 0 {
				t.Errorf("%d sessions", g.Sessions())
			}
		})
	}
}

func TestRestart_UnreachableServer(t *testing.T) {
	key := seal.NewKey()
	server := &lastingServer{}
	id := server.begin(t, key, nil)
	_, srv, b := server.start(t, key, func(_ *Config, b *lastingBackend) { b.refuse = errRefused })
	c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
	if a := c.post(req("1", "echo", "{}")); a.status != 502 || a.code(t) != -32000 || a.message(t).ID != mcp.IntID(1) {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.refuse = nil
	if a := c.post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestRestart_ConcurrentRequestsResumeOnce(t *testing.T) {
	key := seal.NewKey()
	server := &lastingServer{}
	id := server.begin(t, key, nil)
	g, srv, b := server.start(t, key, nil)
	b.open = func(context.Context, *fakeConn) error { time.Sleep(20 * time.Millisecond); return nil }
	c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
	var answers []<-chan *answer
	for i := range 20 {
		answers = append(answers, c.background(req(mcp.IntID(int64(i)).String(), "echo", "{}")))
	}
	for _, answered := range answers {
		if a := receive(t, "an answer", answered); a == nil || a.status != 200 {
			t.Errorf("got %+v", a)
		}
	}
	if len(b.noted) != 1 || g.Sessions() != 1 {
		t.Errorf("%d connections, %d sessions", len(b.noted), g.Sessions())
	}
}

func TestRestart_ExpiredSessionStaysEnded(t *testing.T) {
	key := seal.NewKey()
	server := &lastingServer{}
	id := server.begin(t, key, nil)
	g, srv, b := server.start(t, key, nil)
	c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
	c.post(req("1", "echo", "{}"))
	g.store.Expire(time.Now().Add(DefaultSessionTTL + time.Minute))
	receive(t, "the end of the connection", b.ended)
	if a := c.post(req("2", "echo", "{}")); a.status != 404 || a.code(t) != -32001 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestRestart_SessionLimit(t *testing.T) {
	key := seal.NewKey()
	server := &lastingServer{}
	ids := []string{server.begin(t, key, nil), server.begin(t, key, nil), server.begin(t, key, nil)}
	g, srv, b := server.start(t, key, nil)
	g.core.MaxSessions = 2
	for _, id := range ids {
		c := &wire{t: t, url: srv.URL, session: id, client: srv.Client()}
		if a := c.post(req("1", "echo", "{}")); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	receive(t, "the end of the one idle longest", b.ended)
	if g.Sessions() > 2 {
		t.Errorf("%d sessions", g.Sessions())
	}
}

func TestSessionID_Unique(t *testing.T) {
	server := &lastingServer{}
	_, srv, _ := server.start(t, nil, nil)
	seen := map[string]bool{}
	for range 50 {
		seen[newWire(t, srv).initialize(mcp.V20251125).session] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d ids", len(seen))
	}
}

// An id that is sent before the server has answered initialize has no handle of the
// server's session.
func TestRestart_IDSentBeforeInitialize(t *testing.T) {
	key := seal.NewKey()
	server := &lastingServer{}
	opened := make(chan struct{})
	b := newLastingBackend(server)
	b.open = func(context.Context, *fakeConn) error { <-opened; return nil }
	g, srv := serve(t, b, func(c *Config) { c.Key = key }, func(p *httpd.Timing) { p.Quiet = 5 * time.Millisecond })
	c := newWire(t, srv)
	e := c.stream("POST", "/mcp", initBody)
	c.session = e.header.Get("Mcp-Session-Id")
	close(opened)
	e.message()
	if a := c.post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, srv, _ = server.start(t, key, nil)
	c.url = srv.URL
	if a := c.post(req("1", "echo", "{}")); a.status != 404 {
		t.Errorf("the next gateway: %d %s", a.status, a.body)
	}
}
