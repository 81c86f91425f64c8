package backend

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// stateless is a call by a client of the stateless era.
func stateless(tool string) *gateway.Exchange {
	x := exchange(call(mcp.IntID(1), tool, `{"_meta":{}}`), newPeer())
	x.Client = &gateway.Client{Version: mcp.LatestStateless, Capabilities: json.RawMessage(`{}`)}
	return x
}

// Stateless clients share a session. When the server tells one of them that it
// does not know that session, who waits for an answer in it still gets it, and
// who comes next is served in another.
func TestASharedSessionIsLostToWhoIsToldSo(t *testing.T) {
	noLeaks(t)
	entered, release := make(chan struct{}), make(chan struct{})
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
		tool, _, _ := mcp.LookupString(m.Params, "name")
		switch {
		case m.Method == mcp.MethodDiscover:
			http.Error(w, "no session", http.StatusBadRequest)
			return
		case tool == "lost":
			http.Error(w, "Session not found", http.StatusNotFound)
			return
		case tool == "held":
			close(entered)
			<-release
		}
		reply(w, m.ID, `{"content":[{"type":"text","text":"done"}]}`)
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	held := make(chan string, 1)
	go func() { held <- text(b.Do(context.Background(), stateless("held"))) }()
	<-entered
	if _, err := b.Do(testContext(t), stateless("lost")); err == nil || !strings.Contains(err.Error(), "lost its session") {
		t.Error(err)
	}
	if got := text(b.Do(testContext(t), stateless("next"))); got != "done" {
		t.Error("who comes next:", got)
	}
	select {
	case got := <-held:
		t.Error("who waits:", got)
	default:
	}
	close(release)
	if got := <-held; got != "done" {
		t.Error("who waits:", got)
	}
}

// A server without sessions that once refused server/discover, as one does that
// is being deployed, is asked again when it refuses initialize.
func TestARefusalIsBelievedWhileSessionsBegin(t *testing.T) {
	noLeaks(t)
	var up atomic.Bool
	s := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		switch {
		case err != nil || !up.Load() || m.Method == mcp.MethodInitialize:
			http.Error(w, "not here", http.StatusNotFound)
		case m.Method == mcp.MethodDiscover:
			reply(w, m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`)
		default:
			reply(w, m.ID, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
		}
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	if _, err := b.Do(testContext(t), stateless("x")); err == nil {
		t.Error("it answered while it was down")
	}
	up.Store(true)
	if got := text(b.Do(testContext(t), stateless("x"))); got != "done" {
		t.Error(got)
	}
}

// Where there is one request at a time in a session, because the server might ask
// during it, nobody follows one that was cancelled: the server may still be at work
// on it, and its question would be the next one's.
func TestNoCallFollowsACancelledOneInItsSession(t *testing.T) {
	entered := make(chan *atOne, 1)
	s := &sessionServer{do: func(ctx context.Context, c *atOne, x *gateway.Exchange) (*mcp.Message, error) {
		if x.Request.Method != mcp.MethodToolsCall {
			return nil, nil
		}
		entered <- c
		if name, _, _ := mcp.LookupString(x.Request.Params, "name"); name == "held" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	}}
	b := atSessions(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_, _ = b.Do(ctx, statelessRequest("tools/call", `"name":"held"`, `{"elicitation":{}}`, nil))
		close(ended)
	}()
	first := <-entered
	cancel()
	<-ended
	if _, err := b.Do(t.Context(), statelessRequest("tools/call", `"name":"next"`, `{"elicitation":{}}`, nil)); err != nil {
		t.Fatal(err)
	}
	if <-entered == first {
		t.Error("the next call is made in the session in which the server still works on the cancelled one")
	}
}
