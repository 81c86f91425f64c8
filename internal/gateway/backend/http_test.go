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
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The tests in this file run against servers made with the official SDK.

func TestEveryTransportCarries(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			noLeaks(t)
			fix := newFixture()
			srv := serve(t, tr.handler(fix.server))
			session := answering(map[string]string{
				mcp.MethodSampling:    `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`,
				mcp.MethodElicitation: `{"action":"decline"}`,
				mcp.MethodRootsList:   `{"roots":[{"uri":"file:///home"}]}`,
			})
			conn := open(t, closeAfter(t, tr.backend(srv.URL)), session)
			ctx := testContext(t)

			t.Run("the server's own introduction", func(t *testing.T) {
				if name, _, err := mcp.LookupString(conn.InitializeResult(), "serverInfo", "name"); name != "fixture" || err != nil {
					t.Errorf("server info %s, %v", conn.InitializeResult(), err)
				}
			})
			t.Run("an answer, under the client's id", func(t *testing.T) {
				for _, id := range []mcp.ID{mcp.StringID("x\"y"), mcp.IntID(-7)} {
					m, err := conn.Do(ctx, exchangeOf(call(id, "echo", `{"a":1}`), newPeer()))
					if got := text(m, err); got != `{"a":1}` {
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
					if got := text(lone.Do(ctx, exchangeOf(call(mcp.IntID(1), tool, `{}`), nil))); !strings.HasPrefix(got, want) {
						t.Errorf("%s: %s", tool, got)
					}
				}
			})
			t.Run("the server's own error", func(t *testing.T) {
				m, err := conn.Do(ctx, exchangeOf(request(mcp.IntID(1), mcp.MethodPromptsGet, `{"name":"none"}`), newPeer()))
				if err != nil || m.Error == nil || m.ID != mcp.IntID(1) || !strings.Contains(m.Error.Message, "none") {
					t.Errorf("got %+v, %v", m, err)
				}
			})
			if tr.streams {
				t.Run("progress, in order, before the answer", func(t *testing.T) { testProgress(t, conn) })
			}
			if tr.asks {
				t.Run("the client's introduction", func(t *testing.T) {
					if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "client", `{}`), newPeer()))); got != "the client 2025-11-25" {
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
				if m, err := conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "echo", `{}`), newPeer())); err == nil {
					t.Errorf("got %s", text(m, err))
				}
			})
		})
	}
}

func testProgress(t *testing.T, conn exchange.Conn) {
	p := newPeer()
	m, err := conn.Do(testContext(t), exchangeOf(request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"progress","_meta":{"progressToken":"my token"}}`), p))
	if got := text(m, err); got != "done" {
		t.Fatal(got)
	}
	close(p.notes)
	var got []string
	for n := range p.notes {
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

func testQuestions(t *testing.T, conn exchange.Conn, session *peer) {
	ctx := testContext(t)
	x := newPeer()
	x.answer = session.answer
	for tool, want := range map[string]string{"sample": "model said hello", "elicit": "user chose decline", "roots": "root file:///home"} {
		if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), tool, `{}`), x))); got != want {
			t.Errorf("%s: got %q, want %q", tool, got, want)
		}
	}
	// The client's refusal reaches the server.
	x.answer = func(context.Context, *mcp.Message) (*mcp.Message, error) {
		return nil, &mcp.Error{Code: -1, Message: "user rejected sampling"}
	}
	if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "sample", `{}`), x))); !strings.Contains(got, "user rejected sampling") {
		t.Errorf("got %q", got)
	}
}

func testLogMessages(t *testing.T, conn exchange.Conn) {
	ctx := testContext(t)
	if m, err := conn.Do(ctx, exchangeOf(request(mcp.IntID(1), mcp.MethodSetLevel, `{"level":"debug"}`), newPeer())); err != nil || m.Error != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	p := newPeer()
	if got := text(conn.Do(ctx, exchangeOf(call(mcp.IntID(2), "log", `{}`), p))); got != "logged" {
		t.Fatal(got)
	}
	if m := p.next(t, mcp.NotificationMessage); !strings.Contains(string(m.Params), "careful") {
		t.Errorf("got %s", m.Params)
	}
}

func testSessionNews(t *testing.T, conn exchange.Conn, session *peer) {
	// The SDK gathers changes for a moment, so the news comes when no exchange is in
	// flight any more, or the only one is this.
	if got := text(conn.Do(testContext(t), exchangeOf(call(mcp.IntID(1), "grow", `{}`), session))); got != "grown" {
		t.Fatal(got)
	}
	session.next(t, mcp.NotificationToolsChanged)
}

func testCancellation(t *testing.T, conn exchange.Conn, fix *fixture) {
	ctx, cancel := context.WithCancel(testContext(t))
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Do(ctx, exchangeOf(call(mcp.StringID("c"), "wait", `{}`), newPeer()))
		failed <- err
	}()
	<-fix.started
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Do returned %v", err)
	}
	select {
	case <-fix.cancelled:
	case <-time.After(patience):
		t.Error("the server was not told")
	}
}

// A call that is cancelled may be the last of its session, which is closed with it.
func TestACancellationIsToldBeforeTheConnectionCloses(t *testing.T) {
	for _, tr := range transports {
		if !tr.asks { // without a session nobody knows which request is meant
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			noLeaks(t)
			fix := newFixture()
			conn := open(t, closeAfter(t, tr.backend(serve(t, tr.handler(fix.server)).URL)), newPeer())
			ctx, cancel := context.WithCancel(testContext(t))
			go func() {
				<-fix.started
				cancel()
			}()
			if _, err := conn.Do(ctx, exchangeOf(call(mcp.IntID(1), "wait", `{}`), newPeer())); !errors.Is(err, context.Canceled) {
				t.Errorf("Do returned %v", err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			select {
			case <-fix.cancelled:
			case <-time.After(patience):
				t.Error("the server was not told")
			}
		})
	}
}

// CVE-2026-25536: one client's reply reaching another. Many clients use the same
// ids at the same time.
func TestAnswersNeverStray(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			noLeaks(t)
			srv := serve(t, tr.handler(newFixture().server))
			b := closeAfter(t, tr.backend(srv.URL))
			ctx := testContext(t)
			var all sync.WaitGroup
			for c := range 4 {
				conn := open(t, b, newPeer())
				for g := range 4 {
					all.Go(func() {
						for i := range 20 {
							want := fmt.Sprintf(`{"who":"%d-%d-%d"}`, c, g, i)
							m, err := conn.Do(ctx, exchangeOf(call(mcp.IntID(int64(i)), "echo", want), newPeer()))
							if got := text(m, err); got != want || m.ID != mcp.IntID(int64(i)) {
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
	for _, tr := range transports {
		if !tr.streams {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			noLeaks(t)
			srv := serve(t, tr.handler(newFixture().server))
			session := newPeer()
			conn := open(t, closeAfter(t, tr.backend(srv.URL)), session)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					p := newPeer()
					params := fmt.Sprintf(`{"name":"progress","_meta":{"progressToken":%d}}`, i)
					if got := text(conn.Do(testContext(t), exchangeOf(request(mcp.IntID(1), mcp.MethodToolsCall, params), p))); got != "done" {
						t.Error(got)
					}
					close(p.notes)
					n := 0
					for m := range p.notes {
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
			if len(session.notes) != 0 {
				t.Errorf("%d notifications strayed to the session", len(session.notes))
			}
		})
	}
}

// A server may close a stream and be asked again for the answer (MCP 2025-11-25,
// Streamable HTTP, polling).
func TestAnswerOfAServerThatHangsUpAndIsPolled(t *testing.T) {
	noLeaks(t)
	fix := newFixture()
	srv := serve(t, streamableHandler(&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})(fix.server))
	conn := open(t, closeAfter(t, streamableBackend(srv.URL)), newPeer())
	if got := text(conn.Do(testContext(t), exchangeOf(call(mcp.IntID(1), "polled", `{}`), newPeer()))); got != "polled" {
		t.Error(got)
	}
}

func TestSessionIsEndedAtTheServer(t *testing.T) {
	for _, tr := range transports {
		if !tr.asks { // the stateless server has no sessions
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			noLeaks(t)
			fix := newFixture()
			srv := serve(t, tr.handler(fix.server))
			b := closeAfter(t, tr.backend(srv.URL))
			count := func() (n int) {
				for range fix.server.Sessions() {
					n++
				}
				return n
			}
			one, _ := open(t, b, newPeer()), open(t, b, newPeer())
			eventually(t, "two sessions", func() bool { return count() == 2 })
			if err := one.Close(); err != nil {
				t.Error(err)
			}
			eventually(t, "one is ended by Close", func() bool { return count() == 1 })
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			eventually(t, "the other by the backend's Close", func() bool { return count() == 0 })
			if _, err := b.Open(testContext(t), fullClient(), newPeer()); err == nil {
				t.Error("a closed backend opens connections")
			}
		})
	}
}

// A server that restarted does not know its sessions any more.
func TestRestartedServerEndsTheSession(t *testing.T) {
	noLeaks(t)
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
	conn := open(t, b, newPeer())
	mu.Lock()
	handler = streamableHandler(nil)(newFixture().server)
	mu.Unlock()
	m, err := conn.Do(testContext(t), exchangeOf(call(mcp.IntID(1), "echo", `{}`), newPeer()))
	if codeOf(err) != mcp.CodeSessionNotFound {
		t.Errorf("got %s; want the error that makes a client initialize again", text(m, err))
	}
	select {
	case <-conn.Done():
	case <-time.After(patience):
		t.Error("Done is not closed")
	}
	again := open(t, b, newPeer())
	if got := text(again.Do(testContext(t), exchangeOf(call(mcp.IntID(1), "echo", `{}`), newPeer()))); got != "{}" {
		t.Errorf("a new session: %s", got)
	}
}

func TestDetect(t *testing.T) {
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
		transport := TransportStreamable
		if tr.name == "sse" {
			transport = TransportSSE
		}
		tests[tr.name] = detection{tr.handler(newFixture().server), transport, ""}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			srv := serve(t, tt.handler)
			got, err := Detect(testContext(t), srv.URL, nil)
			if got != tt.transport || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, an error with %q", got, err, tt.transport, tt.err)
			}
		})
	}
	t.Run("leaves no session behind", func(t *testing.T) {
		noLeaks(t)
		fix := newFixture()
		srv := serve(t, streamableHandler(nil)(fix.server))
		if _, err := Detect(testContext(t), srv.URL, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no session", func() bool {
			for range fix.server.Sessions() {
				return false
			}
			return true
		})
	})
	t.Run("a URL that is none", func(t *testing.T) {
		for _, u := range []string{"", "localhost:80", "file:///etc/passwd", "http://"} {
			if got, err := Detect(testContext(t), u, nil); err == nil {
				t.Errorf("%q is %s", u, got)
			}
		}
	})
}
