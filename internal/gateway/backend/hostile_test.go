package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// An event's id that fits into no header is no way to come back: a call whose
// stream broke off after it ends, instead of being tried again for minutes.
func TestEventIDsThatFitIntoNoHeader(t *testing.T) {
	for _, id := range []string{"a\x01", "\x7f", strings.Repeat("x", maxEventID+1)} {
		s := newScript(func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			_, _ = io.WriteString(w, "id: "+id+"\ndata:\n\n")
		})
		conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), newPeer())
		began := time.Now()
		if _, err := conn.Do(testContext(t), exchangeOf(call(mcp.IntID(1), "x", `{}`), newPeer())); err == nil || !strings.Contains(err.Error(), "without answering") {
			t.Errorf("%.20q: %v", id, err)
		}
		if took := time.Since(began); took > patience/2 {
			t.Errorf("%.20q: took %s", id, took)
		}
	}
}

// A stateless client that says something else of itself with every request does
// not make us keep a session for each.
func TestKindsOfClientsAreBounded(t *testing.T) {
	noLeaks(t)
	var ended atomic.Int64
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		if m.Method == mcp.MethodDiscover {
			http.Error(w, "no session", http.StatusBadRequest)
			return
		}
		reply(w, m.ID, `{"content":[{"type":"text","text":"done"}]}`)
	})
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for range s.deleted {
			ended.Add(1)
		}
	}()
	t.Cleanup(func() { // after the backend is closed
		close(s.deleted)
		<-counted
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	for n := range maxPools + 50 {
		x := exchangeOf(call(mcp.IntID(1), "x", `{"_meta":{}}`), newPeer())
		x.Client = &exchange.Client{Version: mcp.LatestStateless, Capabilities: json.RawMessage(fmt.Sprintf(`{"experimental":{"x%d":{}}}`, n))}
		if got := text(b.Do(context.Background(), x)); got != "done" {
			t.Fatal(got)
		}
	}
	eventually(t, "the oldest sessions are ended", func() bool { return ended.Load() >= 50 })
}

// What a server asks is read as encoding/json would read it, or refused, and what
// is sent back is JSON.
func FuzzInputRequired(f *testing.F) {
	f.Add([]byte(`{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"roots/list"}}}`))
	f.Add([]byte(`{"inputRequests":{"a":{"method":1}}}`))
	f.Fuzz(func(t *testing.T, result []byte) {
		if !json.Valid(result) {
			return
		}
		in, err := readInputRequired(result)
		if err != nil {
			return
		}
		if len(in.questions) > maxQuestions+1 || len(in.questions) == 0 && in.state == nil && !strings.Contains(string(result), "inputRequests") {
			t.Fatalf("%q: %+v", result, in)
		}
		var want struct {
			InputRequests map[string]struct{ Method string } `json:"inputRequests"`
			RequestState  *string                            `json:"requestState"`
		}
		if err := json.Unmarshal(result, &want); err != nil {
			return
		}
		if len(want.InputRequests) != len(in.questions) || (want.RequestState != nil) != (in.state != nil) {
			t.Fatalf("%q: %+v, encoding/json reads %+v", result, in, want)
		}
		for _, q := range in.questions {
			if want.InputRequests[q.key].Method != q.method {
				t.Fatalf("%q: %+v", result, q)
			}
		}
		answers := map[string]json.RawMessage{}
		for _, q := range in.questions {
			answers[q.key] = json.RawMessage(`{}`)
		}
		params, err := in.again(json.RawMessage(`{"name":"x"}`), answers)
		if err != nil || !json.Valid(params) {
			t.Fatalf("%q: %q, %v", result, params, err)
		}
	})
}
