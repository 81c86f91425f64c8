package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The tests in this file run against servers that break the rules. Whatever a
// server does, a request has the server's own answer or an error.

func TestBadAnswersAreErrors(t *testing.T) {
	t.Parallel()
	write := func(status int, contentType, body string) func(http.ResponseWriter, *http.Request, *mcp.Message) {
		return func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const asJSON, asEvents = mcp.TypeJSON, mcp.TypeEventStream
	foreign := `{"jsonrpc":"2.0","id":999,"result":{"content":[]}}`
	tests := []struct {
		name string
		post func(http.ResponseWriter, *http.Request, *mcp.Message)
		want string // in the error
	}{
		{"garbage", write(200, asJSON, `{"jsonrpc":`), "not a JSON-RPC message"},
		{"nothing", write(200, asJSON, ``), "not a JSON-RPC message"},
		{"null", write(200, asJSON, `null`), "not a JSON-RPC message"},
		{"empty object", write(200, asJSON, `{}`), "not a JSON-RPC message"},
		{"no content type", write(200, "", foreign), "content type"},
		{"a login page", write(200, "text/html; charset=utf-8", "<html>"), "text/html"},
		{"another request's answer", write(200, asJSON, foreign), "response to another request"},
		{"two results under other spellings", write(200, asJSON, `{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}`), "not a JSON-RPC message"},
		{"accepted and forgotten", write(202, asJSON, ""), "sent no response"},
		{"no content", write(204, asJSON, ""), "sent no response"},
		{"unauthorized", write(401, "text/plain", "who are you"), "requires authentication"},
		{"forbidden", write(403, "text/plain", "no"), "does not allow"},
		{"bad gateway", write(502, "text/html", "<h1>Bad\x00 Gateway</h1>"), "502 Bad Gateway: <h1>Bad Gateway</h1>"},
		{"bad request in prose", write(400, "text/plain", "that is wrong"), "400 Bad Request: that is wrong"},
		{"redirect", func(w http.ResponseWriter, r *http.Request, _ *mcp.Message) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound) // what follows it is a GET
		}, "redirects are not followed"},
		{"another protocol", func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the client hangs up
		}, "switches to another protocol"},
		{"empty stream", write(200, asEvents, ""), "ended the stream without answering"},
		{"stream of comments", write(200, asEvents, ": hi\n\n: ho\n\n"), "ended the stream without answering"},
		{"stream cut in the answer", write(200, asEvents, `data: {"jsonrpc":"2.0","id":1,"result":{"content":[{"te`), "ended the stream without answering"},
		{"stream with another's answer", write(200, asEvents, "data: "+foreign+"\n\n"), "ended the stream without answering"},
		{"stream of an unreadable message", write(200, asEvents, "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"Result\":{}}\n\n"), "cannot be understood"},
		{"stream of an unreadable answer", func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			write(200, asEvents, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{},\"Result\":{}}\n\n", m.ID))(w, nil, nil)
		}, "cannot be understood"},
		{"stream of an answer that cannot be read to its end", write(200, asEvents, "data: {\"result\":{\"ratio\":NaN},\"id\":2}\n\n"), "cannot be understood"},
		{"connection cut", func(http.ResponseWriter, *http.Request, *mcp.Message) { panic(http.ErrAbortHandler) }, "cannot be reached"},
		{"connection cut in the body", func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Content-Type", asJSON)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"jsonrpc"`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "broke off"},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Content-Type", asJSON)
			flood(w, `{"jsonrpc":"2.0","id":1,"result":"`)
		}, "larger than 16 MiB"},
		{"an event without end", func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Content-Type", asEvents)
			flood(w, "data: ")
		}, "larger than the limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(tt.post)
			srv := serve(t, s)
			conn := open(t, closeAfter(t, streamableBackend(srv.URL+"/mcp?key=secret")), backendtest.NewPeer())
			m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))
			if err == nil {
				t.Fatalf("got the answer %s", m.Encode())
			}
			if backendtest.CodeOf(err) == 0 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q (code %d), want it to say %q", err, backendtest.CodeOf(err), tt.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\x00\n") {
				t.Errorf("the error shows what it should not: %q", err)
			}
			if strings.Contains(s.seen(), "elsewhere") {
				t.Error("followed a redirect")
			}
		})
	}
}

// flood writes more than any limit until the client hangs up.
func flood(w http.ResponseWriter, start string) {
	_, _ = io.WriteString(w, start)
	chunk := []byte(strings.Repeat("x", 1<<20))
	for range 64 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestErrorsOfTheServerAreItsAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 400, 404, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			srv := serve(t, newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
				w.Header().Set("Content-Type", mcp.TypeJSON)
				w.WriteHeader(status)
				_, _ = w.Write(mcp.NewError(m.ID, mcp.CodeMethodNotFound, "no such method").Encode())
			}))
			conn := open(t, closeAfter(t, streamableBackend(srv.URL)), backendtest.NewPeer())
			m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.StringID("q"), "x", `{}`), backendtest.NewPeer()))
			if got := backendtest.Text(m, err); got != "rpc error -32601: no such method" || m.ID != mcp.StringID("q") {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestLostSessionIsRecognized(t *testing.T) {
	t.Parallel()
	answers := map[string]func(w http.ResponseWriter){
		"404":                           func(w http.ResponseWriter) { w.WriteHeader(404) },
		"404 with the SDKs' error":      func(w http.ResponseWriter) { rpcStatus(w, 404, mcp.CodeSessionNotFound, "Session not found") },
		"400, after the SDK's example":  func(w http.ResponseWriter) { rpcStatus(w, 400, -32000, "Bad Request: No valid session ID provided") },
		"400 in prose":                  func(w http.ResponseWriter) { http.Error(w, "Invalid or expired session", 400) },
		"400 with the right error code": func(w http.ResponseWriter) { rpcStatus(w, 400, mcp.CodeSessionNotFound, "?") },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiting := make(chan struct{})
			srv := serve(t, newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
				if m.Method == mcp.MethodToolsCall {
					close(waiting)
					<-r.Context().Done()
					return
				}
				answer(w)
			}))
			conn := open(t, closeAfter(t, streamableBackend(srv.URL)), backendtest.NewPeer())
			other := make(chan error, 1)
			go func() {
				_, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))
				other <- err
			}()
			<-waiting
			_, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(2), mcp.MethodToolsList, `{}`), backendtest.NewPeer()))
			if backendtest.CodeOf(err) != mcp.CodeSessionNotFound {
				t.Errorf("got %v", err)
			}
			<-conn.Done()
			if err := <-other; backendtest.CodeOf(err) != mcp.CodeSessionNotFound {
				t.Errorf("the request in flight: %v", err)
			}
		})
	}
	t.Run("not by 404 where there is no session", func(t *testing.T) {
		t.Parallel()
		s := newScript(func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) { w.WriteHeader(404) })
		s.stateless = true
		conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
		_, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))
		if backendtest.CodeOf(err) != mcp.CodeServerGone {
			t.Errorf("got %v", err)
		}
		select {
		case <-conn.Done():
			t.Error("Done is closed")
		default:
		}
	})
}

func rpcStatus(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", mcp.TypeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(mcp.NewError(mcp.ID{}, code, message).Encode())
}

func TestHandshakeFailsWithAReason(t *testing.T) {
	t.Parallel()
	result := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sent, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, strings.Replace(body, "ID", mcp.ParseID(sent).String(), 1))
		}
	}
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"unknown version":   {result(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"1999-01-01"}}`), "1999-01-01"},
		"stateless version": {result(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2026-07-28"}}`), "2026-07-28"},
		"no version":        {result(`{"jsonrpc":"2.0","id":ID,"result":{}}`), "without a protocolVersion"},
		"version a number":  {result(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":1}}`), "must be a string"},
		"two versions":      {result(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","ProtocolVersion":"x"}}`), "another spelling"},
		"result an array":   {result(`{"jsonrpc":"2.0","id":ID,"result":[]}`), "must be an object"},
		"its own error":     {result(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"only 2026-07-28 here"}}`), "only 2026-07-28 here"},
		"a bad session id": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(mcp.HeaderSessionID, "sess ion")
			result(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25"}}`)(w, r)
		}, "visible ASCII"},
		"not there": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "404"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := closeAfter(t, streamableBackend(serve(t, tt.handler).URL))
			_, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		srv := serve(t, http.NotFoundHandler())
		srv.Close()
		b := closeAfter(t, streamableBackend(srv.URL+"/?key=secret"))
		_, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
		if err == nil || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the client gives up", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{})
		srv := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			close(asked)
			<-r.Context().Done()
		}))
		ctx, cancel := context.WithCancel(backendtest.TestContext(t))
		go func() {
			<-asked
			cancel()
		}()
		if _, err := closeAfter(t, streamableBackend(srv.URL)).Open(ctx, backendtest.FullClient(), backendtest.NewPeer()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRequestsCarryTheSession(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 10)
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		headers <- r.Header
		reply(w, m.ID, `{}`)
	})
	conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
	if m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err != nil || string(m.Result) != `{}` {
		t.Fatal(m, err)
	}
	h := <-headers
	for key, want := range map[string]string{
		mcp.HeaderSessionID: "the-session", mcp.HeaderVersion: "2025-11-25",
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	} {
		if h.Get(key) != want {
			t.Errorf("%s is %q, want %q", key, h.Get(key), want)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	want := "POST initialize, POST notifications/initialized, GET, POST x, DELETE"
	if s.seen() != want {
		t.Errorf("the server saw %s; want %s", s.seen(), want)
	}
}

func TestStatelessOpensNoStream(t *testing.T) {
	t.Parallel()
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) { reply(w, m.ID, `{}`) })
	s.stateless = true
	b := closeAfter(t, NewStreamable(httpconn.StreamableConfig{URL: serve(t, s).URL, Stateless: true}))
	conn := open(t, b, backendtest.NewPeer())
	if _, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if want := "POST initialize, POST notifications/initialized, POST x"; s.seen() != want {
		t.Errorf("the server saw %s; want %s", s.seen(), want)
	}
}

// A server that lets GET hang does not keep a session from opening.
func TestHangingStreamDoesNotHoldUp(t *testing.T) {
	t.Parallel()
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) { reply(w, m.ID, `{}`) })
	s.get = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	conn := open(t, closeAfter(t, NewStreamable(httpconn.StreamableConfig{URL: serve(t, s).URL})), backendtest.NewPeer())
	if _, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err != nil {
		t.Fatal(err)
	}
}

// A request whose answer came on the session's stream needs its own no more.
func TestAnswerOnTheSessionsStream(t *testing.T) {
	t.Parallel()
	for name, began := range map[string]func(http.ResponseWriter){
		"before the response begins": func(http.ResponseWriter) {},
		"while it is open":           func(w http.ResponseWriter) { events(w) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, over := make(chan mcp.ID, 1), make(chan struct{})
			s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
				defer close(over)
				began(w)
				asked <- m.ID
				<-r.Context().Done()
			})
			s.get = func(w http.ResponseWriter, r *http.Request) {
				events(w)
				select {
				case id := <-asked:
					events(w, event(mcp.NewResult(id, json.RawMessage(`{"late":true}`))))
				case <-r.Context().Done():
				}
				<-r.Context().Done()
			}
			conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
			ctx := backendtest.TestContext(t)
			m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.StringID("mine"), "x", `{}`), backendtest.NewPeer()))
			if err != nil || m.ID != mcp.StringID("mine") || string(m.Result) != `{"late":true}` {
				t.Errorf("got %v, %v", m, err)
			}
			if ctx.Err() != nil {
				t.Error("the answer came only when nobody waited for it any more")
			}
			select {
			case <-over:
			case <-time.After(backendtest.Patience):
				t.Error("the request is still open")
			}
			if s.mu.Lock(); len(s.cancels) > 0 {
				t.Errorf("the server was told of a cancellation: %s", s.cancels)
			}
			s.mu.Unlock()
		})
	}
}

// What follows an answer is read to its end behind the caller's back, and then the
// connection is used again: not always by the next call, which may come before.
func TestStreamIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	from, answered := make(chan string, 1), make(chan struct{})
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		from <- r.RemoteAddr
		events(w, event(mcp.NewResult(m.ID, json.RawMessage(`{}`))))
		<-answered
	})
	conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
	seen := map[string]bool{}
	for range 100 {
		if _, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err != nil {
			t.Fatal(err)
		}
		answered <- struct{}{}
		addr := <-from
		if seen[addr] {
			return
		}
		seen[addr] = true
	}
	t.Error("each of 100 calls took a connection of its own")
}

func TestSessionStreamIsContinued(t *testing.T) {
	t.Parallel()
	s := newScript(nil)
	var n atomic.Int32
	last := make(chan string, 10)
	s.get = func(w http.ResponseWriter, r *http.Request) {
		last <- r.Header.Get(mcp.HeaderLastEventID)
		i := n.Add(1)
		if i == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		note := &mcp.Message{Method: "notifications/n", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
		events(w, mcp.Event{ID: fmt.Sprintf("id-%d", i), Retry: 10 * time.Millisecond, Data: note.Encode()})
		if i == 3 {
			<-r.Context().Done()
		}
	}
	session := backendtest.NewPeer()
	open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), session)
	for _, want := range []string{`{"n":1}`, `{"n":3}`} {
		if m := session.Next(t, "notifications/n"); string(m.Params) != want {
			t.Errorf("got %s, want %s", m.Params, want)
		}
	}
	for _, want := range []string{"", "id-1", "id-1"} {
		if got := <-last; got != want {
			t.Errorf("Last-Event-ID %q, want %q", got, want)
		}
	}
}

// A server that has forgotten the events since, as the Go SDK's store does when it is
// full, says so with 400. What it says from then on is heard.
func TestSessionStreamThatCannotBeContinuedBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newScript(nil)
	s.get = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get(mcp.HeaderLastEventID) != "":
			http.Error(w, "failed to replay events", http.StatusBadRequest)
		case strings.Count(s.seen(), "GET") == 1:
			events(w, mcp.Event{ID: "1", Retry: time.Millisecond})
		default:
			events(w, event(&mcp.Message{Method: mcp.NotificationToolsChanged}))
			<-r.Context().Done()
		}
	}
	session := backendtest.NewPeer()
	open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), session)
	session.Next(t, mcp.NotificationToolsChanged)
}

func TestSessionStreamTellsOfALostSession(t *testing.T) {
	t.Parallel()
	s := newScript(nil)
	var n atomic.Int32
	s.get = func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) > 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		events(w, mcp.Event{ID: "1", Retry: time.Millisecond})
	}
	conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
	select {
	case <-conn.Done():
	case <-time.After(backendtest.Patience):
		t.Error("Done is not closed")
	}
}

func TestCutStreamIsContinued(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		get  func(w http.ResponseWriter, r *http.Request, n int32, id mcp.ID)
		want string
	}{
		"with the answer at once": {func(w http.ResponseWriter, _ *http.Request, _ int32, id mcp.ID) {
			events(w, event(mcp.NewResult(id, json.RawMessage(`{"content":[{"type":"text","text":"late"}]}`))))
		}, "late"},
		"after a failure": {func(w http.ResponseWriter, _ *http.Request, n int32, id mcp.ID) {
			if n == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			events(w, event(mcp.NewResult(id, json.RawMessage(`{"content":[{"type":"text","text":"later"}]}`))))
		}, "later"},
		"to another's answer": {func(w http.ResponseWriter, _ *http.Request, n int32, _ mcp.ID) {
			if n == 1 {
				events(w, event(mcp.NewResult(mcp.IntID(999), json.RawMessage(`{}`))))
				return
			}
			w.WriteHeader(http.StatusBadRequest)
		}, "error: the server at"},
		"but the server does not":  {func(w http.ResponseWriter, _ *http.Request, _ int32, _ mcp.ID) { w.WriteHeader(405) }, "error: the server at"},
		"but with no event stream": {func(w http.ResponseWriter, _ *http.Request, _ int32, _ mcp.ID) { w.WriteHeader(200) }, "error: the server at"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids := make(chan mcp.ID, 1)
			s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
				ids <- m.ID
				events(w, mcp.Event{ID: "stream-1", Retry: 10 * time.Millisecond})
			})
			var n atomic.Int32
			var id mcp.ID
			s.get = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(mcp.HeaderLastEventID) == "" { // the session's stream
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				i := n.Add(1)
				if i == 1 {
					id = <-ids
				}
				tt.get(w, r, i, id)
			}
			conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
			m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.StringID("a"), "x", `{}`), backendtest.NewPeer()))
			if got := backendtest.Text(m, err); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestCancellationNamesTheRequestAsTheServerKnowsIt(t *testing.T) {
	t.Parallel()
	ids := make(chan mcp.ID, 1)
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		events(w)
		ids <- m.ID
		<-r.Context().Done()
	})
	conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	var id mcp.ID
	go func() {
		id = <-ids
		cancel()
	}()
	if _, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.StringID("mine"), "x", `{}`), backendtest.NewPeer())); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	backendtest.Eventually(t, "the cancellation", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.cancels) == 1 && strings.Contains(s.cancels[0], fmt.Sprintf(`"requestId":%s,`, id))
	})
}

// A server's question that it takes back is not answered any more; other
// questions on the same stream are, each under the server's own id.
func TestQuestionsOnAStream(t *testing.T) {
	t.Parallel()
	answers := make(chan *mcp.Message, 10)
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		if m.Kind() == mcp.Response {
			answers <- m
			w.WriteHeader(http.StatusAccepted)
			return
		}
		events(w,
			event(backendtest.Request(mcp.StringID("back"), mcp.MethodElicitation, `{"take":"back"}`)),
			event(backendtest.Request(mcp.IntID(0), mcp.MethodPing, `{}`)),
			event(backendtest.Request(mcp.StringID("stay"), mcp.MethodElicitation, `{}`)),
			event(&mcp.Message{Method: mcp.NotificationCancelled, Params: json.RawMessage(`{"requestId":"back"}`)}))
		got := map[mcp.ID]string{}
		for len(got) < 2 {
			select {
			case a := <-answers:
				got[a.ID] = string(a.Result)
			case <-r.Context().Done():
				return
			}
		}
		raw, _ := json.Marshal(fmt.Sprint(got))
		events(w, event(mcp.NewResult(m.ID, json.RawMessage(`{"content":[{"type":"text","text":`+string(raw)+`}]}`))))
	})
	x := backendtest.NewPeer()
	takenBack := make(chan struct{})
	x.Answer = func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
		if q.ID == mcp.StringID("back") {
			<-ctx.Done()
			close(takenBack)
			return nil, ctx.Err()
		}
		<-takenBack
		return mcp.NewResult(q.ID, json.RawMessage(`{"action":"accept"}`)), nil
	}
	conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
	got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), x)))
	if want := `map["stay":{"action":"accept"} 0:{}]`; got != want {
		t.Errorf("the server got %s, want %s", got, want)
	}
	select {
	case a := <-answers:
		t.Errorf("the question taken back was answered: %s", a.Encode())
	default:
	}
}

func TestBatchesOf20250326(t *testing.T) {
	t.Parallel()
	p := backendtest.NewPeer()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		switch {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == mcp.MethodInitialize:
			reply(w, m.ID, `{"protocolVersion":"2025-03-26","capabilities":{}}`)
		case m.Kind() == mcp.Notification:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/n"},%s]`, mcp.NewResult(m.ID, json.RawMessage(`{"ok":true}`)).Encode())
		}
	})
	conn := open(t, closeAfter(t, streamableBackend(serve(t, h).URL)), backendtest.NewPeer())
	m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "x", `{}`), p))
	if err != nil || string(m.Result) != `{"ok":true}` {
		t.Errorf("%+v, %v", m, err)
	}
	p.Next(t, "notifications/n")
}
