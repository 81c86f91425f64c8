package backend

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

func sayDone(m *mcp.Message, write func(string)) {
	write(string(mcp.NewResult(m.ID, json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)).Encode()))
}

// A server may answer on the stream before the POST is over, but not leave that open for
// ever: it would be another connection with every call.
func TestSSEPostsDoNotOutliveTheirAnswersForLong(t *testing.T) {
	for name, hang := range map[string]func(w http.ResponseWriter){
		"no answer": func(http.ResponseWriter) {},
		"a body without end": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			s, over := newSSEScript(sayDone), make(chan struct{}, 10)
			s.hang = func(w http.ResponseWriter, r *http.Request) {
				hang(w)
				<-r.Context().Done()
				over <- struct{}{}
			}
			conn := open(t, closeAfter(t, sseBackend(serve(t, s).URL)), newPeer())
			for range 2 {
				if got := text(conn.Do(testContext(t), exchange(call(mcp.IntID(1), "x", `{}`), newPeer()))); got != "done" {
					t.Fatal(got)
				}
			}
			for range 2 {
				select {
				case <-over:
				case <-testContext(t).Done():
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
	noLeaks(t)
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
	conn := open(t, b, newPeer())
	forget()
	_, err := conn.Do(testContext(t), exchange(request(mcp.IntID(1), mcp.MethodToolsList, `{}`), newPeer()))
	if codeOf(err) != mcp.CodeSessionNotFound || !isClosed(conn.Done()) {
		t.Errorf("got %v, and the session is over: %v", err, isClosed(conn.Done()))
	}

	// A stateless client knows of no session, and notices nothing.
	list := func() error {
		_, err := b.Do(testContext(t), statelessRequest(mcp.MethodPromptsList, "", `{}`, nil))
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
