package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The tests in this file run against servers made with the official SDK.

func TestEveryTransportCarries(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			fix := newFixture()
			srv := serve(t, tr.handler(fix.server))
			session := backendtest.Answering(map[string]string{
				mcp.MethodSampling:    `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`,
				mcp.MethodElicitation: `{"action":"decline"}`,
				mcp.MethodRootsList:   `{"roots":[{"uri":"file:///home"}]}`,
			})
			conn := open(t, closeAfter(t, tr.backend(srv.URL)), session)
			ctx := backendtest.TestContext(t)

			t.Run("the server's own introduction", func(t *testing.T) {
				if name, _, err := mcp.LookupString(conn.InitializeResult(), "serverInfo", "name"); name != "fixture" || err != nil {
					t.Errorf("server info %s, %v", conn.InitializeResult(), err)
				}
			})
			t.Run("an answer, under the client's id", func(t *testing.T) {
				for _, id := range []mcp.ID{mcp.StringID("x\"y"), mcp.IntID(-7)} {
					m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(id, "echo", `{"a":1}`), backendtest.NewPeer()))
					if got := backendtest.Text(m, err); got != `{"a":1}` {
						t.Fatalf("got %s", got)
					}
					if m.ID != id {
						t.Errorf("id %v, want %v", m.ID, id)
					}
				}
			})
			t.Run("an answer for who has no peers", func(t *testing.T) {
				lone := open(t, closeAfter(t, tr.backend(srv.URL)), nil)
				for tool, want := range map[string]string{"echo": "{}", "roots": "tool error"} {
					if got := backendtest.Text(lone.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), tool, `{}`), nil))); !strings.HasPrefix(got, want) {
						t.Errorf("%s: %s", tool, got)
					}
				}
			})
			t.Run("the server's own error", func(t *testing.T) {
				m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodPromptsGet, `{"name":"none"}`), backendtest.NewPeer()))
				if err != nil || m.Error == nil || m.ID != mcp.IntID(1) || !strings.Contains(m.Error.Message, "none") {
					t.Errorf("got %+v, %v", m, err)
				}
			})
			if tr.streams {
				t.Run("progress, in order, before the answer", func(t *testing.T) { testProgress(t, conn) })
			}
			if tr.asks {
				t.Run("the client's introduction", func(t *testing.T) {
					if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "client", `{}`), backendtest.NewPeer()))); got != "the client 2025-11-25" {
						t.Errorf("the server saw %q", got)
					}
				})
				t.Run("questions", func(t *testing.T) { testQuestions(t, conn, session) })
				t.Run("log messages", func(t *testing.T) { testLogMessages(t, conn) })
				t.Run("news of the session", func(t *testing.T) { testSessionNews(t, conn, session) })
				t.Run("cancellation", func(t *testing.T) { testCancellation(t, conn, fix) })
			}
			t.Run("nothing after Close", func(t *testing.T) {
				_ = conn.Close()
				<-conn.Done()
				if m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "echo", `{}`), backendtest.NewPeer())); err == nil {
					t.Errorf("got %s", backendtest.Text(m, err))
				}
			})
		})
	}
}

func testProgress(t *testing.T, conn exchange.Conn) {
	p := backendtest.NewPeer()
	m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"progress","_meta":{"progressToken":"my token"}}`), p))
	if got := backendtest.Text(m, err); got != "done" {
		t.Fatal(got)
	}
	close(p.Notes)
	var got []string
	for n := range p.Notes {
		got = append(got, string(n.Params))
	}
	// All have been delivered when Do returns: a front may close its stream then.
	if len(got) != 3 {
		t.Fatalf("got %d notifications: %v", len(got), got)
	}
	for i, params := range got {
		var pr struct {
			ProgressToken string
			Progress      int
		}
		if err := json.Unmarshal([]byte(params), &pr); err != nil || pr.ProgressToken != "my token" || pr.Progress != i+1 {
			t.Errorf("notification %d is %s", i, params)
		}
	}
}

func testQuestions(t *testing.T, conn exchange.Conn, session *backendtest.Peer) {
	ctx := backendtest.TestContext(t)
	x := backendtest.NewPeer()
	x.Answer = session.Answer
	for tool, want := range map[string]string{"sample": "model said hello", "elicit": "user chose decline", "roots": "root file:///home"} {
		if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), tool, `{}`), x))); got != want {
			t.Errorf("%s: got %q, want %q", tool, got, want)
		}
	}
	// The client's refusal reaches the server.
	x.Answer = func(context.Context, *mcp.Message) (*mcp.Message, error) {
		return nil, &mcp.Error{Code: -1, Message: "user rejected sampling"}
	}
	if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "sample", `{}`), x))); !strings.Contains(got, "user rejected sampling") {
		t.Errorf("got %q", got)
	}
}

func testLogMessages(t *testing.T, conn exchange.Conn) {
	ctx := backendtest.TestContext(t)
	if m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodSetLevel, `{"level":"debug"}`), backendtest.NewPeer())); err != nil || m.Error != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	p := backendtest.NewPeer()
	if got := backendtest.Text(conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(2), "log", `{}`), p))); got != "logged" {
		t.Fatal(got)
	}
	if m := p.Next(t, mcp.NotificationMessage); !strings.Contains(string(m.Params), "careful") {
		t.Errorf("got %s", m.Params)
	}
}

func testSessionNews(t *testing.T, conn exchange.Conn, session *backendtest.Peer) {
	// The SDK gathers changes for a moment, so the news comes when no exchange is in
	// flight any more, or the only one is this.
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "grow", `{}`), session))); got != "grown" {
		t.Fatal(got)
	}
	session.Next(t, mcp.NotificationToolsChanged)
}

func testCancellation(t *testing.T, conn exchange.Conn, fix *fixture) {
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.StringID("c"), "wait", `{}`), backendtest.NewPeer()))
		failed <- err
	}()
	<-fix.started
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Do returned %v", err)
	}
	select {
	case <-fix.cancelled:
	case <-time.After(backendtest.Patience):
		t.Error("the server was not told")
	}
}

// A call that is cancelled may be the last of its session, which is closed with it.
func TestACancellationIsToldBeforeTheConnectionCloses(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		if !tr.asks { // without a session nobody knows which request is meant
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			fix := newFixture()
			conn := open(t, closeAfter(t, tr.backend(serve(t, tr.handler(fix.server)).URL)), backendtest.NewPeer())
			ctx, cancel := context.WithCancel(backendtest.TestContext(t))
			go func() {
				<-fix.started
				cancel()
			}()
			if _, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "wait", `{}`), backendtest.NewPeer())); !errors.Is(err, context.Canceled) {
				t.Errorf("Do returned %v", err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			select {
			case <-fix.cancelled:
			case <-time.After(backendtest.Patience):
				t.Error("the server was not told")
			}
		})
	}
}

// CVE-2026-25536: one client's reply reaching another. Many clients use the same
// ids at the same time.
func TestAnswersNeverStray(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, tr.handler(newFixture().server))
			b := closeAfter(t, tr.backend(srv.URL))
			ctx := backendtest.TestContext(t)
			var all sync.WaitGroup
			for c := range 4 {
				conn := open(t, b, backendtest.NewPeer())
				for g := range 4 {
					all.Go(func() {
						for i := range 20 {
							want := fmt.Sprintf(`{"who":"%d-%d-%d"}`, c, g, i)
							m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(int64(i)), "echo", want), backendtest.NewPeer()))
							if got := backendtest.Text(m, err); got != want || m.ID != mcp.IntID(int64(i)) {
								t.Errorf("asked for %s, got %s", want, got)
								return
							}
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// Progress of two requests that run at once goes to the right one, also where
// everything comes on a single stream.
func TestProgressFindsItsRequest(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		if !tr.streams {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, tr.handler(newFixture().server))
			session := backendtest.NewPeer()
			conn := open(t, closeAfter(t, tr.backend(srv.URL)), session)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					p := backendtest.NewPeer()
					params := fmt.Sprintf(`{"name":"progress","_meta":{"progressToken":%d}}`, i)
					if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall, params), p))); got != "done" {
						t.Error(got)
					}
					close(p.Notes)
					n := 0
					for m := range p.Notes {
						n++
						if raw, _, _ := mcp.Lookup(m.Params, "progressToken"); string(raw) != fmt.Sprint(i) {
							t.Errorf("token %s came to request %d", raw, i)
						}
					}
					if n != 3 {
						t.Errorf("%d notifications", n)
					}
				})
			}
			all.Wait()
			if len(session.Notes) != 0 {
				t.Errorf("%d notifications strayed to the session", len(session.Notes))
			}
		})
	}
}

// A server may close a stream and be asked again for the answer (MCP 2025-11-25,
// Streamable HTTP, polling).
func TestAnswerOfAServerThatHangsUpAndIsPolled(t *testing.T) {
	t.Parallel()
	fix := newFixture()
	srv := serve(t, streamableHandler(&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})(fix.server))
	conn := open(t, closeAfter(t, streamableBackend(srv.URL)), backendtest.NewPeer())
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "polled", `{}`), backendtest.NewPeer()))); got != "polled" {
		t.Error(got)
	}
}

func TestSessionIsEndedAtTheServer(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		if !tr.asks { // the stateless server has no sessions
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			fix := newFixture()
			srv := serve(t, tr.handler(fix.server))
			b := closeAfter(t, tr.backend(srv.URL))
			count := func() (n int) {
				for range fix.server.Sessions() {
					n++
				}
				return n
			}
			one, _ := open(t, b, backendtest.NewPeer()), open(t, b, backendtest.NewPeer())
			backendtest.Eventually(t, "two sessions", func() bool { return count() == 2 })
			if err := one.Close(); err != nil {
				t.Error(err)
			}
			backendtest.Eventually(t, "one is ended by Close", func() bool { return count() == 1 })
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			backendtest.Eventually(t, "the other by the backend's Close", func() bool { return count() == 0 })
			if _, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer()); err == nil {
				t.Error("a closed backend opens connections")
			}
		})
	}
}

// A server that restarted does not know its sessions any more.
func TestRestartedServerEndsTheSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	before := newFixture()
	t.Cleanup(func() {
		for session := range before.server.Sessions() {
			_ = session.Close()
		}
	})
	handler := streamableHandler(nil)(before.server)
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	b := closeAfter(t, streamableBackend(srv.URL))
	conn := open(t, b, backendtest.NewPeer())
	mu.Lock()
	handler = streamableHandler(nil)(newFixture().server)
	mu.Unlock()
	m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "echo", `{}`), backendtest.NewPeer()))
	if backendtest.CodeOf(err) != mcp.CodeSessionNotFound {
		t.Errorf("got %s; want the error that makes a client initialize again", backendtest.Text(m, err))
	}
	select {
	case <-conn.Done():
	case <-time.After(backendtest.Patience):
		t.Error("Done is not closed")
	}
	again := open(t, b, backendtest.NewPeer())
	if got := backendtest.Text(again.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "echo", `{}`), backendtest.NewPeer()))); got != "{}" {
		t.Errorf("a new session: %s", got)
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	plain := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "nothing here", status) })
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>"))
	})
	type detection struct {
		handler        http.Handler
		transport, err string
	}
	tests := map[string]detection{
		"no server":      {plain(404), "", "neither"},
		"no method":      {plain(405), "", "neither"},
		"authentication": {plain(401), "", "authentication"},
		"broken":         {plain(502), "", "502"},
		"a web page":     {page, "", "text/html"},
		"a redirect":     {http.RedirectHandler("http://127.0.0.1:1/", 307), "", "not followed"},
	}
	for _, tr := range transports {
		transport := httpconn.TransportStreamable
		if tr.name == "sse" {
			transport = httpconn.TransportSSE
		}
		tests[tr.name] = detection{tr.handler(newFixture().server), transport, ""}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, tt.handler)
			got, err := httpconn.Detect(backendtest.TestContext(t), srv.URL, nil)
			if got != tt.transport || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, an error with %q", got, err, tt.transport, tt.err)
			}
		})
	}
	t.Run("leaves no session behind", func(t *testing.T) {
		t.Parallel()
		fix := newFixture()
		srv := serve(t, streamableHandler(nil)(fix.server))
		if _, err := httpconn.Detect(backendtest.TestContext(t), srv.URL, nil); err != nil {
			t.Fatal(err)
		}
		backendtest.Eventually(t, "no session", func() bool {
			for range fix.server.Sessions() {
				return false
			}
			return true
		})
	})
	t.Run("a URL that is none", func(t *testing.T) {
		for _, u := range []string{"", "localhost:80", "file:///etc/passwd", "http://"} {
			if got, err := httpconn.Detect(backendtest.TestContext(t), u, nil); err == nil {
				t.Errorf("%q is %s", u, got)
			}
		}
	})
}
