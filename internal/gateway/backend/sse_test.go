package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sseScript is a hand-written HTTP+SSE server with one stream. It answers
// initialize itself; say gets every other message and a function that writes
// to the stream.
type sseScript struct {
	endpoint string
	post     int // status of POSTs, 202 if 0
	stream   chan []byte
	say      func(m *mcp.Message, write func(string))
	hang     func(w http.ResponseWriter, r *http.Request) // instead of the end of a POST, if there is one
}

func (s *sseScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		events(w, mcp.Event{Data: []byte("before its time")}, mcp.Event{Name: mcp.EventEndpoint, Data: []byte(s.endpoint)})
		for {
			select {
			case b := <-s.stream:
				if b == nil {
					return // the stream ends
				}
				_, _ = w.Write(b)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	body, _ := io.ReadAll(r.Body)
	m, err := mcp.Parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	write := func(data string) { s.stream <- mcp.AppendEvent(nil, mcp.Event{Data: []byte(data)}) }
	switch {
	case m.Method == mcp.MethodInitialize:
		write(string(mcp.NewResult(m.ID, json.RawMessage(`{"protocolVersion":"2024-11-05"}`)).Encode()))
	case m.Kind() == mcp.Notification:
	default:
		if s.post != 0 {
			http.Error(w, "not today", s.post)
			return
		}
		s.say(m, write)
		if s.hang != nil {
			s.hang(w, r)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func newSSEScript(say func(m *mcp.Message, write func(string))) *sseScript {
	return &sseScript{endpoint: "messages?session=1", stream: make(chan []byte, 100), say: say}
}

func TestSSEEndpointOfAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"http://169.254.169.254/latest/meta-data", "//evil.example/m", "https://127.0.0.1/m", "http://127.0.0.1:1/m",
		"http://user:pw@HOST/m", "http://localhost:PORT/m", "file:///etc/passwd", "javascript:alert(1)", "http://[::1", "",
	} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			s := newSSEScript(nil)
			srv := serve(t, s)
			host := strings.TrimPrefix(srv.URL, "http://")
			s.endpoint = strings.NewReplacer("HOST", host, "PORT", host[strings.IndexByte(host, ':')+1:]).Replace(endpoint)
			conn, err := closeAfter(t, sseBackend(srv.URL+"/sse")).Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
			if endpoint == "" { // the stream's own URL, which takes no POST here but is no other origin
				if err == nil {
					_ = conn.Close()
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), "endpoint") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSSEStreamThatOpensWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"refused":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "requires authentication"},
		"no stream":     {func(w http.ResponseWriter, _ *http.Request) { reply(w, mcp.IntID(1), `{}`) }, "content type"},
		"no endpoint":   {func(w http.ResponseWriter, _ *http.Request) { events(w, mcp.Event{Name: "hello"}) }, "before it named an endpoint"},
		"endless event": {func(w http.ResponseWriter, _ *http.Request) { events(w); flood(w, "data: ") }, "larger than the limit"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://127.0.0.1:1/", 302) },
			"redirects are not followed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := closeAfter(t, sseBackend(serve(t, tt.handler).URL)).Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			events(w)
			<-r.Context().Done()
		}))
		ctx, cancel := context.WithTimeout(backendtest.TestContext(t), 50*time.Millisecond)
		defer cancel()
		_, err := closeAfter(t, sseBackend(srv.URL)).Open(ctx, backendtest.FullClient(), backendtest.NewPeer())
		if err == nil || !strings.Contains(err.Error(), "in time") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSSEBadAnswersAreErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		say   func(s *sseScript) func(m *mcp.Message, write func(string))
		want  string
		ended bool // the session has ended with it
	}{
		"the stream ends": {func(s *sseScript) func(*mcp.Message, func(string)) {
			return func(*mcp.Message, func(string)) { s.stream <- nil }
		}, "ended its event stream", true},
		"the stream ends in the answer": {func(s *sseScript) func(*mcp.Message, func(string)) {
			return func(m *mcp.Message, _ func(string)) {
				s.stream <- fmt.Appendf(nil, `data: {"jsonrpc":"2.0","id":%s,"result":`, m.ID)
				s.stream <- nil
			}
		}, "ended its event stream", true},
		"an answer that cannot be read": {func(*sseScript) func(*mcp.Message, func(string)) {
			return func(m *mcp.Message, write func(string)) {
				write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{},"RESULT":{}}`, m.ID))
			}
		}, "cannot be understood", false},
		"what may have been an answer": {func(*sseScript) func(*mcp.Message, func(string)) {
			return func(_ *mcp.Message, write func(string)) { write(`{"jsonrpc":"2.0","id":1,`) }
		}, "not a JSON-RPC message", true},
		"an answer that cannot be read to its end": {func(*sseScript) func(*mcp.Message, func(string)) {
			return func(_ *mcp.Message, write func(string)) { write(`{"result":{"ratio":NaN},"id":2}`) }
		}, "an answer of the server cannot be understood", false},
		"an error to an unreadable request": {func(*sseScript) func(*mcp.Message, func(string)) {
			return func(_ *mcp.Message, write func(string)) {
				write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot read that"}}`)
			}
		}, "cannot read that", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSSEScript(nil)
			s.say = tt.say(s)
			conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), backendtest.NewPeer())
			got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())))
			if !strings.Contains(got, tt.want) || !strings.Contains(got, "error") {
				t.Errorf("got %s", got)
			}
			if !tt.ended {
				return
			}
			<-conn.Done()
			if m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err == nil {
				t.Errorf("after the end: %s", backendtest.Text(m, err))
			}
		})
	}
	t.Run("a refused POST", func(t *testing.T) {
		t.Parallel()
		s := newSSEScript(nil)
		s.post = 503
		conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), backendtest.NewPeer())
		_, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))
		if backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), "503 Service Unavailable: not today") {
			t.Errorf("got %v", err)
		}
	})
}

// Lines that are no messages at all, answers to nobody and second endpoints
// disturb nothing.
func TestSSENoiseIsPassedOver(t *testing.T) {
	t.Parallel()
	s := newSSEScript(nil)
	s.say = func(m *mcp.Message, write func(string)) {
		write("ping")
		write(`{"jsonrpc":"2.0","id":4711,"result":{}}`)
		s.stream <- mcp.AppendEvent(nil, mcp.Event{Name: mcp.EventEndpoint, Data: []byte("http://evil.example/")})
		s.stream <- mcp.AppendComment(nil, "keep alive")
		write(string(mcp.NewResult(m.ID, json.RawMessage(`{"content":[{"type":"text","text":"fine"}]}`)).Encode()))
	}
	conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), backendtest.NewPeer())
	for range 2 {
		if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))); got != "fine" {
			t.Error(got)
		}
	}
}

func TestSSECloseFailsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := newSSEScript(func(*mcp.Message, func(string)) { close(asked) })
	conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), backendtest.NewPeer())
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Do(context.Background(), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))
		failed <- err
	}()
	<-asked
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; backendtest.CodeOf(err) != mcp.CodeServerGone || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-conn.Done()
}
