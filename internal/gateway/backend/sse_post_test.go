package backend

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func sayDone(m *mcp.Message, write func(string)) {
	write(string(mcp.NewResult(m.ID, json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)).Encode()))
}

// Some servers answer a POST with the answer, as if there were no stream.
func TestSSEAnswersInTheBodyOfThePost(t *testing.T) {
	t.Parallel()
	const onStream = "on the stream"
	result := func(id mcp.ID, text string) string {
		return string(mcp.NewResult(id, json.RawMessage(`{"content":[{"type":"text","text":"`+text+`"}]}`)).Encode())
	}
	for name, tt := range map[string]struct {
		contentType string
		body        func(id mcp.ID) string
		want        string
	}{
		"the answer":            {"application/json; charset=utf-8", func(id mcp.ID) string { return result(id, "in the body") }, "in the body"},
		"an error":              {mcp.TypeJSON, func(id mcp.ID) string { return string(mcp.NewError(id, mcp.CodeInvalidParams, "no").Encode()) }, "rpc error -32602: no"},
		"an error without id":   {mcp.TypeJSON, func(mcp.ID) string { return string(mcp.NewError(mcp.ID{}, mcp.CodeParse, "no").Encode()) }, "rpc error -32700: no"},
		"another's answer":      {mcp.TypeJSON, func(mcp.ID) string { return result(mcp.IntID(-5), "another's") }, onStream},
		"the request again":     {mcp.TypeJSON, func(id mcp.ID) string { return `{"jsonrpc":"2.0","id":` + id.String() + `,"method":"tools/call"}` }, onStream},
		"no message":            {mcp.TypeJSON, func(mcp.ID) string { return `{"status":"accepted"}` }, onStream},
		"no JSON":               {mcp.TypeJSON, func(mcp.ID) string { return `Accepted` }, onStream},
		"nothing":               {mcp.TypeJSON, func(mcp.ID) string { return `` }, onStream},
		"the answer as a text":  {"text/plain", func(id mcp.ID) string { return result(id, "in the body") }, onStream},
		"more than an answer":   {mcp.TypeJSON, func(id mcp.ID) string { return result(id, "in the body") + "{}" }, onStream},
		"more than can be read": {mcp.TypeJSON, func(mcp.ID) string { return strings.Repeat(" ", mcp.MaxEvent+1) }, onStream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var id mcp.ID
			s := newSSEScript(func(m *mcp.Message, _ func(string)) { id = m.ID })
			s.hang = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				_, _ = io.WriteString(w, tt.body(id))
				_ = http.NewResponseController(w).Flush()
				if tt.want == onStream {
					s.stream <- mcp.AppendEvent(nil, mcp.Event{Data: []byte(result(id, onStream))})
				}
			}
			conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), backendtest.NewPeer())
			for range 2 {
				if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// A server may answer on the stream before the POST is over, but not leave that open for
// ever: it would be another connection with every call.
func TestSSEPostsDoNotOutliveTheirAnswersForLong(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(w http.ResponseWriter){
		"no answer": func(http.ResponseWriter) {},
		"a body without end": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, over := newSSEScript(sayDone), make(chan struct{}, 10)
			s.hang = func(w http.ResponseWriter, r *http.Request) {
				hang(w)
				<-r.Context().Done()
				over <- struct{}{}
			}
			conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), backendtest.NewPeer())
			for range 2 {
				if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer()))); got != "done" {
					t.Fatal(got)
				}
			}
			for range 2 {
				select {
				case <-over:
				case <-backendtest.TestContext(t).Done():
					t.Fatal("a POST stays open")
				}
			}
			if isClosed(conn.Done()) {
				t.Error("the session has ended")
			}
		})
	}
}

// A server that has forgotten the session says so to a POST, and may leave the stream
// open, on which nothing comes any more.
func TestSSESessionsThatTheServerForgot(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var s *sseScript
	opened, forgotten := 0, false
	forget := func() {
		mu.Lock()
		defer mu.Unlock()
		forgotten = true
	}
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Method == http.MethodGet {
			opened, forgotten, s = opened+1, false, newSSEScript(sayDone)
		}
		script, lost := s, forgotten
		mu.Unlock()
		if lost {
			http.Error(w, "Could not find session", http.StatusNotFound)
			return
		}
		script.ServeHTTP(w, r)
	}))
	b := closeAfter(t, sseBackend(srv.URL))
	conn := open(t, b, backendtest.NewPeer())
	forget()
	_, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsList, `{}`), backendtest.NewPeer()))
	if backendtest.CodeOf(err) != mcp.CodeSessionNotFound || !isClosed(conn.Done()) {
		t.Errorf("got %v, and the session is over: %v", err, isClosed(conn.Done()))
	}

	// A stateless client knows of no session, and notices nothing.
	list := func() error {
		_, err := b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodPromptsList, "", `{}`, nil))
		return err
	}
	if err := list(); err != nil {
		t.Fatal(err)
	}
	forget()
	if err := list(); err != nil || opened != 3 {
		t.Errorf("got %v after %d sessions", err, opened)
	}
}
