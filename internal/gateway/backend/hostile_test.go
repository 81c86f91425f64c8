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
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// An event's id that fits into no header is no way to come back: a call whose
// stream broke off after it ends, instead of being tried again for minutes.
func TestEventIDsThatFitIntoNoHeader(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a\x01", "\x7f", strings.Repeat("x", 4<<10+1)} {
		s := newScript(func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			_, _ = io.WriteString(w, "id: "+id+"\ndata:\n\n")
		})
		conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), backendtest.NewPeer())
		began := time.Now()
		if _, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), backendtest.NewPeer())); err == nil || !strings.Contains(err.Error(), "without answering") {
			t.Errorf("%.20q: %v", id, err)
		}
		if took := time.Since(began); took > backendtest.Patience/2 {
			t.Errorf("%.20q: took %s", id, took)
		}
	}
}

// A stateless client that says something else of itself with every request does
// not make us keep a session for each.
func TestKindsOfClientsAreBounded(t *testing.T) {
	t.Parallel()
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
	for n := range 256 + 50 {
		x := backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{"_meta":{}}`), backendtest.NewPeer())
		x.Client = &exchange.Client{Version: mcp.LatestStateless, Capabilities: json.RawMessage(fmt.Sprintf(`{"experimental":{"x%d":{}}}`, n))}
		if got := backendtest.Text(b.Do(context.Background(), x)); got != "done" {
			t.Fatal(got)
		}
	}
	backendtest.Eventually(t, "the oldest sessions are ended", func() bool { return ended.Load() >= 50 })
}
