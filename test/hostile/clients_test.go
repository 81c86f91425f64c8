//go:build hostile

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// inMemory is a gateway before s without sockets, and a client of it.
func inMemory(t *testing.T, s *Server, modern bool) (*gateway.Gateway, *Client) {
	t.Helper()
	g := gatewayOf(t, backend.NewStreamable(backend.StreamableConfig{URL: "http://server/mcp", Transport: Wire{s}}))
	return g, &Client{URL: "http://localhost/mcp", HTTP: &http.Client{Transport: Wire{g}}, Modern: modern, Capabilities: Capabilities}
}

func timed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// altered are ways to alter a token.
func altered(token string) []string {
	flip := func(i int) string {
		c := byte('A')
		if token[i] == c {
			c = 'B'
		}
		return token[:i] + string(c) + token[i+1:]
	}
	out := []string{"", "x", token + "A", token[:len(token)-1], token + token, strings.ToUpper(token), " " + token, strings.Repeat("A", 4000), token + "\u00e9", "../../etc"}
	for i := 0; i < len(token)-1; i += 1 + len(token)/20 { // the last one may hold unused bits
		out = append(out, flip(i))
	}
	return out
}

// A session's id that was altered, or is of another gateway or session, is of no
// session (404 and -32001, on every verb).
func TestAlteredSessionIDs(t *testing.T) {
	noLeaks(t)
	ctx := timed(t)
	_, c := inMemory(t, &Server{}, false)
	_, other := inMemory(t, &Server{}, false)
	for _, c := range []*Client{c, other} {
		if err := c.Open(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range append(altered(c.Session), other.Session) {
		for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			h := c.header("", "")
			h[http.CanonicalHeaderKey(mcp.HeaderSessionID)] = []string{id}
			resp, err := c.Send(ctx, verb, []byte(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`), h)
			if err != nil {
				t.Fatal(err)
			}
			o, err := c.Read(ctx, resp)
			_ = resp.Body.Close()
			want := http.StatusNotFound
			switch {
			case id == "" && verb == http.MethodGet: // there is nothing to listen to
				want = http.StatusMethodNotAllowed
			case id == "":
				want = http.StatusBadRequest
			}
			if err != nil || o.Status != want || o.Response == nil || o.Response.Error == nil || want == 404 && o.Response.Error.Code != mcp.CodeSessionNotFound {
				t.Errorf("%s with %.60q: %s, %v", verb, id, o, err)
			}
		}
	}
	if o, err := c.Call(ctx, mcp.IntID(1), "good", `{"nonce":"still"}`, ""); err != nil || o.Text() != "still" {
		t.Errorf("the session itself: %v, %v", o, err)
	}
}

// Last-Event-IDs of another session, and made-up ones.
func TestForeignEventIDs(t *testing.T) {
	noLeaks(t)
	ctx := timed(t)
	_, c := inMemory(t, &Server{}, false)
	theirs := *c
	for _, c := range []*Client{c, &theirs} {
		if err := c.Open(ctx); err != nil {
			t.Fatal(err)
		}
	}
	eventID := func(c *Client) string {
		get, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.Send(get, http.MethodGet, nil, c.header("", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "id: ") {
			t.Fatalf("%q, %v", line, err)
		}
		return strings.TrimSpace(line[4:])
	}
	own, foreign := eventID(c), eventID(&theirs)
	for _, id := range append([]string{foreign, strings.Replace(own, "-", "--", 1), own + "0000000000000000000000000"}, altered(own)[1:6]...) {
		h := c.header("", "")
		h.Set(mcp.HeaderLastEventID, id)
		get, cancel := context.WithTimeout(ctx, bound)
		resp, err := c.Send(get, http.MethodGet, nil, h)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusBadRequest {
			// An id of this session that never was: its own stream, from now on.
			if id == foreign || resp.StatusCode != http.StatusOK {
				t.Errorf("%q: HTTP %d", id, resp.StatusCode)
			}
		}
		cancel()
		_ = resp.Body.Close()
	}
}

// A requestState is accepted with the request that it was issued for, unaltered. That of a
// parked call is accepted once. How often a server's own is accepted is for the server to
// decide (MCP 2026-07-28, Multi Round-Trip Requests, Security Considerations).
func TestRequestStates(t *testing.T) {
	for _, modernServer := range []bool{false, true} {
		t.Run(fmt.Sprint("modern server ", modernServer), func(t *testing.T) {
			noLeaks(t)
			ctx := timed(t)
			s := &Server{Modern: modernServer}
			_, c := inMemory(t, s, true)
			const answer = `"inputResponses":{"%s":{"action":"accept","content":{"nonce":"back"}}}`
			asked := func(nonce string) (key, state string) {
				o, err := c.once(ctx, c.modernCall(7, fmt.Sprintf(`"arguments":{"nonce":%q,"kind":"ask"}`, nonce)))
				if err != nil {
					t.Fatal(err)
				}
				var r struct {
					InputRequests map[string]json.RawMessage
					RequestState  string
				}
				if err := json.Unmarshal(o.Response.Result, &r); err != nil || len(r.InputRequests) != 1 {
					t.Fatalf("%s, %v", o, err)
				}
				for key = range r.InputRequests {
				}
				return key, r.RequestState
			}
			again := func(key, state, arguments string) *Outcome {
				quoted, _ := json.Marshal(state)
				o, err := c.once(ctx, c.modernCall(8, arguments+`,`+fmt.Sprintf(answer, key)+`,"requestState":`+string(quoted)))
				if err != nil || o.Response == nil {
					t.Fatalf("%v, %v", o, err)
				}
				return o
			}
			refused := func(what string, o *Outcome) {
				t.Helper()
				if o.Response.Error == nil || o.Response.Error.Code != mcp.CodeInvalidParams || o.Status != 400 {
					t.Errorf("%s: %s", what, o)
				}
			}
			key, state := asked("one")
			const own = `"arguments":{"nonce":"one","kind":"ask"}`
			for _, wrong := range altered(state) {
				refused(fmt.Sprintf("altered to %.40q", wrong), again(key, wrong, own))
			}
			refused("with other arguments", again(key, state, `"arguments":{"nonce":"two","kind":"ask"}`))
			_, other := inMemory(t, s, true)
			other.HTTP, c.HTTP = c.HTTP, other.HTTP
			refused("at another gateway", again(key, state, own))
			c.HTTP = other.HTTP
			if modernServer {
				if o := again(key, state, own); o.Text() != "back" {
					t.Errorf("%s", o)
				}
				return
			}
			// Many at once: one gets through.
			var through atomic.Int64
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if o := again(key, state, own); o.Response.Error == nil {
						through.Add(1)
						if o.Text() != "back" {
							t.Errorf("%s", o)
						}
					}
				})
			}
			all.Wait()
			if through.Load() != 1 {
				t.Errorf("%d of 20 got through", through.Load())
			}
			refused("used", again(key, state, own))
			if n := s.Twice(); n != "" {
				t.Errorf("the call of %s was made %d times", n, s.Calls(n))
			}
		})
	}
}

// modernCall is tools/call of "round" with that id and these members of params.
func (c *Client) modernCall(id int64, members string) *mcp.Message {
	return &mcp.Message{ID: mcp.IntID(id), Method: mcp.MethodToolsCall, Params: json.RawMessage(fmt.Sprintf(
		`{"name":"round",%s,"_meta":{%q:"2026-07-28",%q:%s}}`, members, mcp.MetaVersion, mcp.MetaCapabilities, c.capabilities()))}
}

// Bodies and headers that no client should send get an error each, and nothing of
// them reaches the server.
func TestBadRequests(t *testing.T) {
	noLeaks(t)
	ctx := timed(t)
	s := &Server{}
	_, session := inMemory(t, s, false)
	if err := session.Open(ctx); err != nil {
		t.Fatal(err)
	}
	modern := *session
	modern.Modern, modern.Session = true, ""
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	good := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"good","arguments":{"nonce":"bad"},` + meta + `}}`
	plain := strings.Replace(good, ","+meta, "", 1)
	with := func(pairs ...string) func(http.Header) {
		return func(h http.Header) {
			for i := 0; i < len(pairs); i += 2 {
				h.Del(pairs[i])
				if pairs[i+1] != "" {
					h.Set(pairs[i], pairs[i+1])
				}
			}
		}
	}
	tests := []struct {
		name   string
		client *Client
		body   string
		header func(http.Header)
		status int
	}{
		{"empty", session, "", nil, 400},
		{"cut off", session, plain[:50], nil, 400},
		{"two messages", session, plain + plain, nil, 400},
		{"a batch", session, "[" + plain + "]", nil, 400},
		{"an empty batch", session, "[]", nil, 400},
		{"a batch of 101", session, "[" + strings.Repeat(plain+",", 100) + plain + "]", nil, 400},
		{"a modern batch", &modern, "[" + good + "]", nil, 400},
		{"method twice", session, strings.Replace(plain, `"id"`, `"method":"ping","id"`, 1), nil, 400},
		{"Method beside", session, strings.Replace(plain, `"id"`, `"Method":"ping","id"`, 1), nil, 400},
		{"id null", session, strings.Replace(plain, `"id":1`, `"id":null`, 1), nil, 400},
		{"id a fraction", session, strings.Replace(plain, `"id":1`, `"id":1.5`, 1), nil, 400},
		{"id an object", session, strings.Replace(plain, `"id":1`, `"id":{}`, 1), nil, 400},
		{"invalid UTF-8", session, strings.Replace(plain, "bad", "\xff", 1), nil, 400},
		{"NUL", session, strings.Replace(plain, "bad", "\x00", 1), nil, 400},
		{"a nesting bomb", session, strings.Replace(plain, `"bad"`, strings.Repeat("[", 1<<20), 1), nil, 400},
		{"9 MiB", session, strings.Replace(plain, "bad", strings.Repeat("x", 9<<20), 1), nil, 413},
		{"text/plain", session, plain, with("Content-Type", "text/plain"), 415},
		{"a form", session, plain, with("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"gzip", session, plain, with("Content-Encoding", "gzip"), 415},
		{"accepts images", session, plain, with("Accept", "image/png"), 406},
		{"a foreign origin", session, plain, with("Origin", "https://evil.example"), 403},
		{"origin null", session, plain, with("Origin", "null"), 403},
		{"no modern version header", &modern, good, with(mcp.HeaderVersion, ""), 400},
		{"an older version header", &modern, good, with(mcp.HeaderVersion, "2025-11-25"), 400},
		{"a later version header", &modern, good, with(mcp.HeaderVersion, "2027-01-01"), 400},
		{"no method header", &modern, good, with(mcp.HeaderMethod, ""), 400},
		{"another method header", &modern, good, with(mcp.HeaderMethod, "tools/list"), 400},
		{"the method header in capitals", &modern, good, with(mcp.HeaderMethod, "TOOLS/CALL"), 400},
		{"no name header", &modern, good, with(mcp.HeaderName, ""), 400},
		{"another name header", &modern, good, with(mcp.HeaderName, "rm"), 400},
		{"a name header in no base64", &modern, good, with(mcp.HeaderName, "=?base64?!!!?="), 400},
		{"version twice in _meta", &modern, strings.Replace(good, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`, 1), nil, 400},
		{"_meta twice", &modern, strings.Replace(good, `"_meta"`, `"_meta":{},"_meta"`, 1), nil, 400},
		{"_Meta beside", &modern, strings.Replace(good, `"_meta"`, `"_Meta":{},"_meta"`, 1), nil, 400},
		{"name twice", &modern, strings.Replace(good, `"name"`, `"name":"rm","name"`, 1), nil, 400},
		{"capabilities a list", &modern, strings.Replace(good, `Capabilities":{}`, `Capabilities":[]`, 1), nil, 400},
		{"a response", &modern, `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400},
		{"inputResponses a list", &modern, strings.Replace(good, `"name"`, `"inputResponses":[],"requestState":"x","name"`, 1), nil, 400},
		{"requestState a number", &modern, strings.Replace(good, `"name"`, `"requestState":1,"name"`, 1), nil, 400},
		{"requestState twice", &modern, strings.Replace(good, `"name"`, `"requestState":"a","requestState":"b","name"`, 1), nil, 400},
		{"a modern initialize", &modern, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + meta + `}}`, with(mcp.HeaderMethod, "initialize"), 404},
		{"an answer to nothing", session, `{"jsonrpc":"2.0","id":12345,"result":{}}`, nil, 202},
		{"progress of nothing", session, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`, nil, 202},
		{"cancels nothing", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, nil, 202},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.client.header(mcp.MethodToolsCall, "good")
			if tt.header != nil {
				tt.header(h)
			}
			resp, err := tt.client.Send(ctx, http.MethodPost, []byte(tt.body), h)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			o, err := tt.client.Read(ctx, resp)
			if err != nil || o.Status != tt.status || tt.status/100 != 2 && (o.Response == nil || o.Response.Error == nil) && !strings.Contains(o.Body, "error") {
				t.Errorf("want HTTP %d: %s, %v", tt.status, o, err)
			}
		})
	}
	if n := s.Calls("bad"); n != 0 {
		t.Errorf("the server was called %d times", n)
	}
}

// Clients that stop in the middle of anything, and clients that do not read, on
// real connections.
func TestDisconnectsAtEveryStep(t *testing.T) {
	noLeaks(t)
	s := &Server{}
	g := gatewayOf(t, backend.NewStreamable(backend.StreamableConfig{URL: serve(t, s), Transport: &http.Transport{}}))
	address := serve(t, g)
	memory := watchMemory(t)
	for _, modern := range []bool{false, true} {
		bystander(t, address, modern)
	}
	ctx := timed(t)
	session := clientOf(t, address, false)
	if err := session.Open(ctx); err != nil {
		t.Fatal(err)
	}
	modern := clientOf(t, address, true)
	var dialer net.Dialer
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	raw := func(c *Client, m *mcp.Message) string {
		var b strings.Builder
		fmt.Fprintf(&b, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", u.Host, len(m.Encode()))
		_ = c.HeaderOf(m).Write(&b)
		return b.String() + "\r\n" + string(m.Encode())
	}
	call := func(c *Client, tool string) string {
		m := c.modernCall(3, `"arguments":{"nonce":"`+nonce()+`"}`)
		m.Params = json.RawMessage(strings.Replace(string(m.Params), "round", tool, 1))
		if !c.Modern {
			m.Params, _ = mcp.Without(m.Params, func(key string) bool { return key == "_meta" })
		}
		return raw(c, m)
	}
	send := func(text string, then func(net.Conn)) {
		conn, err := dialer.DialContext(ctx, "tcp", u.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
		then(conn)
	}
	t.Run("while sending", func(*testing.T) {
		for _, c := range []*Client{session, modern} {
			whole := call(c, "good")
			for n := 0; n <= len(whole); n += 23 {
				send(whole[:n], func(net.Conn) {})
			}
		}
	})
	t.Run("while receiving", func(*testing.T) {
		for _, c := range []*Client{session, modern} {
			for _, tool := range []string{"forever", "5,000 notifications", "an answer byte by byte", "2,000 questions"} {
				for n := 1; n <= 300; n += 50 {
					send(call(c, tool), func(conn net.Conn) {
						_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
						_, _ = io.CopyN(io.Discard, conn, int64(n))
					})
				}
			}
		}
	})
	t.Run("never reading", func(t *testing.T) {
		var all sync.WaitGroup
		for n := range 12 {
			all.Go(func() {
				send(call([]*Client{session, modern}[n%2], []string{"5,000 notifications", "notifications of 1 MiB", "notifications for ever"}[n%3]), func(net.Conn) { time.Sleep(2 * time.Second) })
			})
		}
		all.Wait()
		memory.check(t, "clients that do not read")
	})
	t.Run("slowly", func(t *testing.T) {
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() {
				text := call([]*Client{session, modern}[n%2], "good")
				send(text[:len(text)-100], func(conn net.Conn) {
					for i := range 20 {
						_, _ = io.WriteString(conn, text[len(text)-100+i:][:1])
						time.Sleep(50 * time.Millisecond)
					}
				})
			})
		}
		all.Wait()
		memory.check(t, "slow clients")
	})
	// The session lives, with nothing in its way.
	if err := session.Close(ctx); err != nil {
		t.Error(err)
	}
	if n := s.Twice(); n != "" {
		t.Errorf("the call of %s was made %d times", n, s.Calls(n))
	}
}
