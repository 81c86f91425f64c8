package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const mib = 1 << 20

// padded is a request of about size bytes.
func padded(id, method string, size int, more string) string {
	return req(id, method, `{"name":"add","padding":"`+strings.Repeat("x", size)+`"`+more+`}`)
}

// refusedForRoom reports whether a is what a client gets when there is no room.
func refusedForRoom(a *answer, err error) bool {
	return a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "" && strings.Contains(a.body, err.Error())
}

func TestBudget_LargeSlowBodies(t *testing.T) {
	const clients, size, room = 40, 2 * mib, 16 * mib
	b := newFakeBackend()
	do, _, release, _ := held()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	g.core.Inbound.Max = room
	srv.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = clients
	c := newWire(t, srv).initialize(mcp.V20251125)
	stop := make(chan struct{})
	most := atomic.Int64{}
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				most.Store(max(most.Load(), g.core.Inbound.Used()))
			}
		}
	})
	served, refused := atomic.Int64{}, atomic.Int64{}
	var all sync.WaitGroup
	rest := make(chan struct{}) // closed when the rest of the bodies may come
	for i := range clients {
		all.Go(func() {
			body := padded(fmt.Sprint(i), "hold", size, "")
			r, w := io.Pipe()
			go func() {
				_, _ = io.WriteString(w, body[:size/2])
				<-rest
				_, _ = io.WriteString(w, body[size/2:])
				_ = w.Close()
			}()
			request := c.request(context.Background(), "POST", "/mcp", "")
			request.Body, request.ContentLength = r, int64(len(body))
			if i%2 == 0 {
				request.ContentLength = -1
			}
			resp, err := c.client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			a := &answer{resp.StatusCode, resp.Header, string(text)}
			switch {
			case err != nil:
				t.Error(err)
			case a.status == 200 && len(a.body) > size:
				served.Add(1)
			case refusedForRoom(a, errors.New("too many large requests")) && !resp.Close:
				refused.Add(1)
			default:
				t.Errorf("got %d %.200s", a.status, a.body)
			}
		})
	}
	eventually(t, "the budget to be used", func() bool { return g.core.Inbound.Used() > room/2 })
	small := func() {
		t.Helper()
		if a := c.post(req(`"small"`, "tools/list", `{}`)); a.status != 200 {
			t.Errorf("a small one: %d %s", a.status, a.body)
		}
	}
	small()
	close(rest)
	eventually(t, "the refusals", func() bool { return refused.Load() > 0 })
	small()
	close(release)
	all.Wait()
	close(stop)
	watch.Wait()
	t.Logf("%d served, %d refused; at most %d KiB were taken", served.Load(), refused.Load(), most.Load()>>10)
	if served.Load() == 0 || served.Load()+refused.Load() != clients {
		t.Errorf("%d served, %d refused", served.Load(), refused.Load())
	}
	// Who takes looks after taking, and gives back: each is over for a moment.
	if most.Load() > room+clients*size {
		t.Errorf("%d were taken", most.Load())
	}
	eventually(t, "the budget to be full again", g.owesNothing)
	if a := c.post(padded("1", "tools/call", size, "")); a.status != 200 {
		t.Errorf("a large one afterwards: %d %.200s", a.status, a.body)
	}
}

// A server that does not read holds what one client sends it, and leaves room for the
// others.
func TestBudget_ShareOfASession(t *testing.T) {
	const size, fit = 7 * mib, httpd.MaxSessionInbound / (7 * mib)
	for name, mode := range map[string]func(*Config){"streamable HTTP": nil, "HTTP+SSE": sseMode} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBackend()
			do, entered, release, _ := held()
			b.do = do
			g, srv := serve(t, b, mode, nil)
			begin := func() (post func(id, method string, size int) <-chan *answer) {
				c, path := newWire(t, srv), "/mcp"
				if mode == nil {
					c.initialize(mcp.V20251125)
				} else {
					var e *events
					e, path = c.subscribe()
					c.send("POST", path, initBody)
					e.message()
				}
				return func(id, method string, size int) <-chan *answer {
					done := make(chan *answer, 1)
					go func() { done <- c.send("POST", path, padded(id, method, size, "")) }()
					return done
				}
			}
			ok := func(what string, answered <-chan *answer) {
				t.Helper()
				if a := receive(t, what, answered); a.status != 200 && a.status != 202 {
					t.Errorf("%s: %d %.200s", what, a.status, a.body)
				}
			}
			greedy, other := begin(), begin()
			var all []<-chan *answer
			for n := range fit {
				all = append(all, greedy(fmt.Sprint(n), "hold", size))
				receive(t, "the call", entered)
			}
			if a := receive(t, "one more", greedy("100", "hold", size)); !refusedForRoom(a, httpd.ErrShareRoom) || !strings.Contains(a.body, `"id":100`) {
				t.Errorf("one more: %d %.200s", a.status, a.body)
			}
			ok("a small one", greedy("101", "x", 10))
			ok("a large one of another session", other("1", "x", size))
			close(release)
			for _, answered := range all {
				ok("what was taken", answered)
			}
			if mode == nil { // otherwise the stream is not read here
				eventually(t, "the bytes", g.owesNothing)
				ok("a large one afterwards", greedy("102", "x", size))
			}
		})
	}
}

func TestBudget_ConnectionIsReusedAfterRefusal(t *testing.T) {
	g, srv := serve(t, newFakeBackend(), nil, nil)
	g.core.Inbound.Max = mib
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	answers := bufio.NewReader(conn)
	send := func(body string) *http.Response {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for range 3 {
		if resp := send(padded("1", "initialize", 4*mib, "")); resp.StatusCode != 503 || resp.Close || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("got %+v", resp)
		}
		if resp := send(initBody); resp.StatusCode != 200 || resp.Close {
			t.Fatalf("then a small one got %+v", resp)
		}
	}
}

// Whatever ends an exchange gives back what its body took.
func TestBudget_BodiesAreReleased(t *testing.T) {
	const size = mib
	taken := func(g *Gateway) bool { return g.core.Inbound.Used() >= size }
	abandon := func(c *wire, path, body string, headers ...string) context.CancelFunc {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			if resp, err := c.client.Do(c.request(ctx, "POST", path, body, headers...)); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		return cancel
	}
	t.Run("an answer", func(t *testing.T) {
		g, srv := serve(t, newFakeBackend(), nil, nil)
		newWire(t, srv).initialize(mcp.V20251125).post(padded("1", "x", size, ""))
		eventually(t, "the bytes", g.owesNothing)
	})
	for name, body := range map[string]string{
		"no JSON":      strings.Repeat("x", size),
		"too large":    strings.Repeat("x", mcp.MaxBody+1),
		"no session":   padded("1", "tools/list", size, ""),
		"notification": `{"jsonrpc":"2.0","method":"x","params":{"x":"` + strings.Repeat("x", size) + `"}}`,
		"a batch":      `[` + padded("1", "tools/list", size, "") + `]`,
	} {
		t.Run(name, func(t *testing.T) {
			g, srv := serve(t, newFakeBackend(), nil, nil)
			c := newWire(t, srv)
			r := c.request(t.Context(), "POST", "/mcp", body)
			r.ContentLength = -1 // else nothing is taken of what is too large
			c.do(r)
			eventually(t, "the bytes", g.owesNothing)
		})
	}
	t.Run("the body breaks off", func(t *testing.T) {
		g, srv := serve(t, newFakeBackend(), nil, nil)
		c := newWire(t, srv)
		r, w := io.Pipe()
		request := c.request(t.Context(), "POST", "/mcp", "")
		request.Body, request.ContentLength = r, 2*size
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := c.client.Do(request); err == nil {
				_ = resp.Body.Close()
			}
		}()
		_, _ = io.WriteString(w, strings.Repeat("x", size+size/2))
		eventually(t, "some of the body", func() bool { return taken(g) })
		_ = w.CloseWithError(errors.New("the client breaks off"))
		<-done
		eventually(t, "the bytes", g.owesNothing)
	})
	t.Run("a session's call whose client went away holds them until the server answers", func(t *testing.T) {
		b := newFakeBackend()
		do, entered, release, _ := held()
		b.do = do
		g, srv := serve(t, b, nil, nil)
		c := newWire(t, srv).initialize(mcp.V20251125)
		leave := abandon(c, "/mcp", padded("1", "hold", size, ""))
		receive(t, "the call", entered)
		leave()
		if !taken(g) {
			t.Error("they were given back too early")
		}
		close(release)
		eventually(t, "the bytes", g.owesNothing)
	})
	t.Run("a stateless call whose client went away", func(t *testing.T) {
		b := newFakeBackend()
		do, entered, _, _ := held()
		b.do = do
		g, srv := serve(t, b, nil, nil)
		leave := abandon(newWire(t, srv), "/mcp", padded("1", "hold", size, ","+statelessMeta("")), statelessHeaders("hold", "")...)
		receive(t, "the call", entered)
		if !taken(g) {
			t.Error("they were not taken")
		}
		leave()
		eventually(t, "the bytes", g.owesNothing)
	})
	t.Run("over HTTP+SSE the answer, not the POST", func(t *testing.T) {
		b := newFakeBackend()
		do, entered, release, _ := held()
		b.do = do
		g, srv := serve(t, b, sseMode, nil)
		c := newWire(t, srv)
		e, endpoint := c.subscribe()
		c.send("POST", endpoint, initBody)
		e.message()
		if a := c.send("POST", endpoint, padded("1", "hold", size, "")); a.status != 202 {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		receive(t, "the call", entered)
		if !taken(g) {
			t.Error("they were given back with the POST")
		}
		close(release)
		if m := e.message(); len(m.Result) < size {
			t.Errorf("got %.100s", m.Encode())
		}
		eventually(t, "the bytes", func() bool { return g.core.Inbound.Used() == 0 })
	})
}

func TestBudget_ParkedCalls(t *testing.T) {
	const size = mib
	body := padded("1", "tools/call", size, `,`+statelessMeta(`"elicitation":{}`))
	t.Run("answered", func(t *testing.T) {
		b, _ := askingBackend(t, elicit, elicit)
		g, srv := serve(t, b, nil, nil)
		c := newWire(t, srv)
		state := c.post(body, statelessHeaders("tools/call", "add")...).inputRequired(t).RequestState
		for i := 1; i <= 2; i++ {
			a := c.post(padded("2", "tools/call", size, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"%d":{"action":"accept"}},%s`, state, i, statelessMeta(`"elicitation":{}`))), statelessHeaders("tools/call", "add")...)
			if i == 1 {
				state = a.inputRequired(t).RequestState
			} else if a.status != 200 || a.code(t) != 0 {
				t.Errorf("got %d %.200s", a.status, a.body)
			}
		}
		eventually(t, "the bytes", g.owesNothing)
	})
	t.Run("never come back to", func(t *testing.T) {
		b, _ := askingBackend(t, elicit)
		g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Parked = 50 * time.Millisecond })
		newWire(t, srv).post(body, statelessHeaders("tools/call", "add")...).inputRequired(t)
		eventually(t, "the bytes", g.owesNothing)
	})
	t.Run("leaving room for others", func(t *testing.T) {
		b, results := askingBackend(t, elicit)
		g, srv := serve(t, b, nil, nil)
		g.core.Inbound.Max = 10 * size // of which a quarter is for calls that wait
		c := newWire(t, srv)
		small := c.post(callThatAsks("0"), statelessHeaders("tools/call", "add")...).inputRequired(t).RequestState
		var states []string
		for range 10 {
			states = append(states, c.post(body, statelessHeaders("tools/call", "add")...).inputRequired(t).RequestState)
			eventually(t, "their share to be kept to", func() bool { return g.core.Inbound.Used() <= 5*size/2 })
		}
		if g.core.Inbound.Used() < 2*size || g.stateless.Parked() != 3 {
			t.Errorf("%d calls wait, with %d bytes", g.stateless.Parked(), g.core.Inbound.Used())
		}
		for range 8 {
			if got := receive(t, "the end of one that waited longest", results); got != "the client did not send the answers in time" {
				t.Errorf("the server received %s", got)
			}
		}
		goOn := func(state string) *answer {
			return c.post(padded("2", "tools/call", size, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"1":{}},%s`, state, statelessMeta(`"elicitation":{}`))), statelessHeaders("tools/call", "add")...)
		}
		if a := goOn(states[7]); a.status != 400 || !strings.Contains(a.message(t).Error.Message, "no longer waits") {
			t.Errorf("one that made room got %d %.200s", a.status, a.body)
		}
		for _, state := range states[8:] {
			if a := goOn(state); a.status != 200 || a.code(t) != 0 {
				t.Errorf("one of the newest got %d %.200s", a.status, a.body)
			}
		}
		// It holds nothing that others need.
		if a := c.post(again("3", "add", small, `{"1":{}}`), statelessHeaders("tools/call", "add")...); a.status != 200 || a.code(t) != 0 {
			t.Errorf("the small one got %d %.200s", a.status, a.body)
		}
	})
	t.Run("whose question has no room", func(t *testing.T) {
		large := &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodElicitation, Params: json.RawMessage(`{"message":"` + strings.Repeat("x", size) + `"}`)}
		for _, accept := range []string{"application/json, text/event-stream", "text/event-stream"} {
			b, results := askingBackend(t, large)
			g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Room = time.Millisecond })
			g.core.Held.Max = 2 * (size + 100) // the request has room in its half, but not the result with it
			a := newWire(t, srv).post(callThatAsks("1"), statelessHeaders("tools/call", "add", "Accept: "+accept)...)
			if !strings.Contains(a.body, httpd.ErrAnswerRoom.Message) {
				t.Errorf("got %d %.200s", a.status, a.body)
			}
			// Its client has nothing to come back with.
			if got := receive(t, "the end", results); got != "the server's request did not reach the client" || g.stateless.Parked() != 0 {
				t.Errorf("the server received %s, %d calls wait", got, g.stateless.Parked())
			}
		}
	})
	t.Run("its outcome takes room too", func(t *testing.T) {
		{
			b := newFakeBackend()
			withdraw := make(chan struct{})
			b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
				ctx, cancel := context.WithCancel(ctx)
				asked := make(chan struct{})
				go func() { _, _ = x.Peer.Ask(ctx, elicit); close(asked) }()
				<-withdraw
				cancel()
				<-asked
				return mcp.NewResult(x.Request.ID, json.RawMessage(`{"large":"`+strings.Repeat("x", 2*size)+`"}`)), nil
			}
			g, srv := serve(t, b, nil, nil)
			c := newWire(t, srv)
			state := c.post(body, statelessHeaders("tools/call", "add")...).inputRequired(t).RequestState
			close(withdraw) // the server takes its question back, and answers
			eventually(t, "the response to be kept", func() bool { return g.core.Held.Used() >= 2*size })
			a := c.post(padded("2", "tools/call", size, fmt.Sprintf(`,"requestState":%q,"inputResponses":{},%s`, state, statelessMeta(`"elicitation":{}`))), statelessHeaders("tools/call", "add")...)
			if len(a.body) < 2*size {
				t.Errorf("the client got %d %.200s", a.status, a.body)
			}
			eventually(t, "the bytes", g.owesNothing)
		}
	})
}

// unread makes a request over a connection of its own and reads nothing.
func (c *wire) unread(t *testing.T, method, path, body string, headers ...string) (leave func()) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if err := c.request(context.Background(), method, path, body, headers...).Write(conn); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close() }
}

// largeBackend is a server that answers with results of that size, after a
// notification for "noted".
func largeBackend(size int) *fakeBackend {
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		switch x.Request.Method {
		case "noted":
			x.Peer.Notify(note(mcp.NotificationMessage, `{"level":"info","data":"x"}`))
			fallthrough
		case "large":
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{"large":"`+strings.Repeat("x", size)+`"}`)), nil
		}
		return echo(x), nil
	}
	return b
}

func TestBudget_UnreadResponses(t *testing.T) {
	const size = 15 * mib // more than the kernel takes
	for _, method := range []string{"large", "noted"} {
		t.Run(method, func(t *testing.T) {
			g, srv := serve(t, largeBackend(size), nil, func(p *httpd.Timing) { p.Room = 20 * time.Millisecond })
			g.core.Held.Max = size + mib
			c := newWire(t, srv).initialize(mcp.V20251125)
			leave := c.unread(t, "POST", "/mcp", req("1", method, `{}`))
			eventually(t, "the unread response", func() bool { return g.core.Held.Used() >= size })
			if a := c.post(req("2", method, `{}`)); !strings.Contains(a.body, httpd.ErrAnswerRoom.Message) || !strings.Contains(a.body, `"id":2`) {
				t.Errorf("a second one got %d %.200s", a.status, a.body)
			}
			if a := c.post(req("3", "tools/list", `{}`)); a.status != 200 || a.code(t) != 0 {
				t.Errorf("a small one got %d %.200s", a.status, a.body)
			}
			if g.core.Held.Used() > g.core.Held.Max {
				t.Errorf("%d bytes are taken", g.core.Held.Used())
			}
			leave()
			eventually(t, "the bytes", func() bool { return g.core.Inbound.Used() == 0 && g.core.Held.Used() < mib })
			if a := c.post(req("4", method, `{}`)); a.status != 200 || len(a.body) < size {
				t.Errorf("afterwards: %d %.200s", a.status, a.body)
			}
		})
	}
	t.Run("sse", func(t *testing.T) {
		g, srv := serve(t, largeBackend(size), sseMode, func(p *httpd.Timing) { p.Room = 20 * time.Millisecond })
		g.core.Held.Max = size + mib
		c := newWire(t, srv)
		e, endpoint := c.subscribe()
		c.send("POST", endpoint, initBody)
		e.message()
		g.core.Held.Force(int(g.core.Held.Max)) // by others
		c.send("POST", endpoint, req("1", "large", `{}`))
		if m := e.message(); m == nil || m.Error == nil || m.Error.Message != httpd.ErrAnswerRoom.Message {
			t.Errorf("got %.200v", m)
		}
		c.send("POST", endpoint, req("2", "tools/list", `{}`))
		if m := e.message(); m == nil || m.Error != nil {
			t.Errorf("a small one got %.200v", m)
		}
		g.core.Held.Give(int(g.core.Held.Max))
		c.send("POST", endpoint, req("3", "large", `{}`))
		if m := e.message(); m == nil || len(m.Result) < size {
			t.Errorf("afterwards: %.200v", m)
		}
	})
}

func TestBudget_ResponseWaitsForRoom(t *testing.T) {
	g, srv := serve(t, largeBackend(mib), nil, nil)
	g.core.Held.Force(int(g.core.Held.Max))
	c := newWire(t, srv).initialize(mcp.V20251125)
	answer := c.background(req("1", "large", `{}`))
	select {
	case a := <-answer:
		t.Errorf("got %d %.200s", a.status, a.body)
	case <-time.After(50 * time.Millisecond):
	}
	g.core.Held.Give(int(g.core.Held.Max))
	if a := receive(t, "the answer", answer); a == nil || len(a.body) < mib {
		t.Errorf("got %+v", a)
	}
}

func TestBudget_InitializeWithoutRoom(t *testing.T) {
	b := newFakeBackend()
	b.info = `{"protocolVersion":"2025-11-25","capabilities":{},"instructions":"` + strings.Repeat("x", mib) + `"}`
	g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Room = time.Millisecond })
	g.core.Held.Max = mib
	for _, accept := range []string{"application/json, text/event-stream", "text/event-stream"} {
		if a := newWire(t, srv).post(initBody, "Accept: "+accept); !strings.Contains(a.body, httpd.ErrAnswerRoom.Message) {
			t.Errorf("got %d %.200s", a.status, a.body)
		}
		receive(t, "the end at the server", b.ended)
		if n := g.Sessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	}
}

func TestBudget_Declarations(t *testing.T) {
	g, srv := serve(t, newFakeBackend(), nil, nil)
	g.core.Held.Max = 64 << 10
	declaring := func(size int) string {
		return strings.Replace(initBody, `"capabilities":{}`, `"capabilities":{"experimental":{"x":"`+strings.Repeat("x", size)+`"}}`, 1)
	}
	first := newWire(t, srv)
	first.session = first.post(declaring(20 << 10)).header.Get("Mcp-Session-Id")
	if first.session == "" {
		t.Fatal("there was room")
	}
	if a := newWire(t, srv).post(declaring(20 << 10)); !refusedForRoom(a, errors.New("declare less")) {
		t.Errorf("got %d %s", a.status, a.body)
	}
	newWire(t, srv).initialize(mcp.V20251125)
	if a := first.send("DELETE", "/mcp", ""); a.status != 204 {
		t.Errorf("DELETE: %d", a.status)
	}
	if a := newWire(t, srv).post(declaring(20 << 10)); a.status != 200 {
		t.Errorf("when the first is gone: %d %s", a.status, a.body)
	}
}
