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

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// stateless is a call by a client of the stateless era.
func stateless(tool string) *exchange.Exchange {
	x := backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), tool, `{"_meta":{}}`), backendtest.NewPeer())
	x.Client = &exchange.Client{Version: mcp.LatestStateless, Capabilities: json.RawMessage(`{}`)}
	return x
}

// Stateless clients share a session. When the server tells one of them that it
// does not know that session, who waits for an answer in it still gets it, and
// who comes next is served in another.
func TestASharedSessionIsLostToWhoIsToldSo(t *testing.T) {
	t.Parallel()
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
	go func() { held <- backendtest.Text(b.Do(context.Background(), stateless("held"))) }()
	<-entered
	if _, err := b.Do(backendtest.TestContext(t), stateless("lost")); err == nil || !strings.Contains(err.Error(), "lost its session") {
		t.Error(err)
	}
	if got := backendtest.Text(b.Do(backendtest.TestContext(t), stateless("next"))); got != "done" {
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
	t.Parallel()
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
	if _, err := b.Do(backendtest.TestContext(t), stateless("x")); err == nil {
		t.Error("it answered while it was down")
	}
	up.Store(true)
	if got := backendtest.Text(b.Do(backendtest.TestContext(t), stateless("x"))); got != "done" {
		t.Error(got)
	}
}

// Where there is one request at a time in a session, because the server might ask
// during it, nobody follows one that was cancelled: the server may still be at work
// on it, and its question would be the next one's.
func TestNoCallFollowsACancelledOneInItsSession(t *testing.T) {
	t.Parallel()
	entered := make(chan *atOne, 1)
	s := &sessionServer{do: func(ctx context.Context, c *atOne, x *exchange.Exchange) (*mcp.Message, error) {
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

// Two clients in one session may have the same progress token, and all progress
// comes on one stream.
func TestProgressTokensInASharedSession(t *testing.T) {
	t.Parallel()
	ids := make(chan mcp.Message, 2)
	s := newSSEScript(nil)
	s.say = func(m *mcp.Message, write func(string)) {
		if m.Method == mcp.MethodToolsList {
			write(string(mcp.NewResult(m.ID, json.RawMessage(`{"tools":[]}`)).Encode()))
			return
		}
		ids <- *m
	}
	b := closeAfter(t, sseBackend(serve(t, s).URL))
	var peers [2]*backendtest.Peer
	done := make(chan struct{}, 2)
	var at [2]mcp.Message
	for i := range peers {
		peers[i] = backendtest.NewPeer()
		x := statelessRequest("tools/call", `"name":"a"`, `{}`, peers[i])
		x.Request.Params, _ = mcp.Set(x.Request.Params, json.RawMessage(`1`), "_meta", "progressToken")
		x.Meta = backendtest.MetaOf(x.Request)
		go func() {
			_, err := b.Do(backendtest.TestContext(t), x)
			if err != nil {
				t.Error(err)
			}
			done <- struct{}{}
		}()
		at[i] = <-ids
	}
	token, _, _ := mcp.Lookup(at[0].Params, "_meta", "progressToken")
	write := func(m *mcp.Message) { s.stream <- mcp.AppendEvent(nil, event(m)) }
	write(&mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":1}`, token))})
	for i := range at {
		write(mcp.NewResult(at[i].ID, json.RawMessage(`{}`)))
	}
	<-done
	<-done
	if len(peers[0].Notes) != 1 || len(peers[1].Notes) != 0 {
		t.Errorf("the first heard %d, the other %d", len(peers[0].Notes), len(peers[1].Notes))
	}
}

// A question that came on no request's stream is put to nobody on a guess, and the
// server never sees a progress token twice.
func TestAQuestionInASharedSessionIsNotGuessed(t *testing.T) {
	t.Parallel()
	streams := make(chan http.ResponseWriter, 1)
	answers := make(chan *mcp.Message, 1)
	entered := make(chan json.RawMessage, 2)
	release := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			events(w)
			streams <- w
			<-r.Context().Done()
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		switch {
		case err != nil:
		case m.Kind() == mcp.Response:
			answers <- m
			w.WriteHeader(202)
		case m.Method == mcp.MethodDiscover:
			http.Error(w, "no session", 400)
		case m.Method == mcp.MethodInitialize:
			w.Header().Set(mcp.HeaderSessionID, "the-session")
			reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}`)
		case m.Kind() == mcp.Notification:
			w.WriteHeader(202)
		case m.Method == mcp.MethodToolsCall:
			token, _, _ := mcp.Lookup(m.Params, "_meta", "progressToken")
			events(w, event(&mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(`{"progressToken":` + string(token) + `}`)}))
			entered <- token
			<-release
			events(w, event(mcp.NewResult(m.ID, json.RawMessage(`{"content":[]}`))))
		default:
			reply(w, m.ID, `{"tools":[]}`)
		}
	})
	b := closeAfter(t, streamableBackend(serve(t, h).URL))
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	defer cancel()
	go func() {
		_, _ = b.Do(ctx, statelessRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, `{}`, backendtest.NewPeer()))
	}()
	stream := <-streams
	done := make(chan struct{}, 2)
	asked := make(chan int, 2)
	for i := range 2 {
		p := backendtest.NewPeer()
		p.Answer = func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
			asked <- i
			return mcp.NewResult(q.ID, json.RawMessage(`{"action":"accept"}`)), nil
		}
		x := statelessRequest("tools/call", `"name":"a"`, `{}`, p)
		x.Request.Params, _ = mcp.Set(x.Request.Params, json.RawMessage(`"t"`), "_meta", "progressToken")
		x.Meta = backendtest.MetaOf(x.Request)
		go func() {
			_, err := b.Do(backendtest.TestContext(t), x)
			if err != nil {
				t.Error(err)
			}
			done <- struct{}{}
		}()
		if token := <-entered; string(token) == `"t"` {
			t.Error("the server was given a token that another client may have too")
		}
		if m := p.Next(t, mcp.NotificationProgress); string(m.Params) != `{"progressToken":"t"}` {
			t.Errorf("client %d heard %s", i, m.Params)
		}
	}
	events(stream, event(backendtest.Request(mcp.StringID("q"), mcp.MethodElicitation, `{"message":"for the first"}`)))
	a := <-answers
	if a.Error == nil {
		t.Errorf("a guess was asked: %s", a.Encode())
	}
	close(release)
	<-done
	<-done
	select {
	case i := <-asked:
		t.Errorf("client %d was asked", i)
	default:
	}
}

// What comes on the stream of a request that has its answer is for nobody else.
func TestWhatComesLateInASharedSession(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	answers := make(chan *mcp.Message, 1)
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
		tool, _, _ := mcp.LookupString(m.Params, "name")
		switch {
		case m.Method == mcp.MethodDiscover:
			http.Error(w, "no session", http.StatusBadRequest)
			return
		case m.Kind() == mcp.Response:
			answers <- m
			w.WriteHeader(http.StatusAccepted)
			return
		case tool == "held":
			close(entered)
			<-release
		case tool == "late":
			events(w, event(mcp.NewResult(m.ID, json.RawMessage(`{}`))),
				event(&mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(`{"level":"error","data":"late"}`)}),
				event(backendtest.Request(mcp.StringID("q"), mcp.MethodElicitation, `{"message":"late"}`)))
			return
		}
		reply(w, m.ID, `{"content":[{"type":"text","text":"done"}]}`)
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	held := backendtest.Answering(map[string]string{mcp.MethodElicitation: `{"action":"accept"}`})
	done := make(chan string, 1)
	go func() {
		done <- backendtest.Text(b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"held"`, `{}`, held)))
	}()
	<-entered
	if _, err := b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"late"`, `{}`, backendtest.NewPeer())); err != nil {
		t.Error(err)
	}
	if a := <-answers; a.Error == nil {
		t.Errorf("another client was asked: %s", a.Encode())
	}
	close(release)
	if got := <-done; got != "done" {
		t.Error(got)
	}
	if len(held.Notes) > 0 {
		t.Errorf("another client heard %s", (<-held.Notes).Params)
	}
}

// A lost session in which others still wait ends with the backend, although another
// has taken its place.
func TestCloseEndsALostSession(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
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
			<-r.Context().Done()
			return
		}
		reply(w, m.ID, `{"content":[{"type":"text","text":"done"}]}`)
	})
	b := streamableBackend(serve(t, s).URL)
	held := make(chan error, 1)
	go func() {
		_, err := b.Do(backendtest.TestContext(t), stateless("held"))
		held <- err
	}()
	<-entered
	if _, err := b.Do(backendtest.TestContext(t), stateless("lost")); err == nil {
		t.Error("it was answered")
	}
	if got := backendtest.Text(b.Do(backendtest.TestContext(t), stateless("next"))); got != "done" {
		t.Error("who comes next:", got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-held; backendtest.CodeOf(err) != mcp.CodeServerGone || !strings.Contains(err.Error(), "is closed") {
		t.Error("who waits:", err)
	}
}
