package backend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// ownStreams is a server whose sessions have a stream of their own each.
type ownStreams struct {
	slow    time.Duration // to begin a session, and its stream
	call    func(s *ownStream, w http.ResponseWriter, m *mcp.Message)
	mu      sync.Mutex
	streams map[string]*ownStream // by session
}

type ownStream struct {
	open    atomic.Bool
	said    chan *mcp.Message
	written chan struct{}     // it is on its way
	answers chan *mcp.Message // of the client
}

func newOwnStreams(call func(*ownStream, http.ResponseWriter, *mcp.Message)) *ownStreams {
	return &ownStreams{call: call, streams: map[string]*ownStream{}}
}

// say sends m on the session's own stream, as the TypeScript SDK does: where that is
// not there, it is lost.
func (s *ownStream) say(m *mcp.Message) bool {
	if !s.open.Load() {
		return false
	}
	s.said <- m
	<-s.written
	return true
}

func (s *ownStream) hold(w http.ResponseWriter, r *http.Request) {
	s.open.Store(true)
	defer s.open.Store(false)
	events(w)
	for {
		select {
		case m := <-s.said:
			events(w, event(m))
			s.written <- struct{}{}
		case <-r.Context().Done():
			return
		}
	}
}

func (s *ownStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	here := s.streams[r.Header.Get(mcp.HeaderSessionID)]
	s.mu.Unlock()
	if r.Method == http.MethodGet {
		time.Sleep(s.slow)
		here.hold(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := mcp.Parse(body)
	switch {
	case r.Method == http.MethodDelete:
	case err != nil || m.Method == mcp.MethodDiscover:
		http.Error(w, "no session", http.StatusBadRequest)
	case m.Method == mcp.MethodInitialize:
		time.Sleep(s.slow)
		id := rand.Text()
		s.mu.Lock()
		s.streams[id] = &ownStream{said: make(chan *mcp.Message), written: make(chan struct{}), answers: make(chan *mcp.Message, 1)}
		s.mu.Unlock()
		w.Header().Set(mcp.HeaderSessionID, id)
		reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}}}`)
	case m.Kind() == mcp.Response:
		here.answers <- m
		w.WriteHeader(http.StatusAccepted)
	case m.Kind() == mcp.Notification:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodToolsCall || m.Method == mcp.MethodPing:
		s.call(here, w, m)
	default:
		reply(w, m.ID, `{}`)
	}
}

func logAt(t *testing.T, level string, p exchange.Peer) *exchange.Exchange {
	t.Helper()
	x := statelessRequest(mcp.MethodToolsCall, `"name":"a"`, `{}`, p)
	var err error
	if x.Request.Params, err = mcp.Set(x.Request.Params, json.RawMessage(`"`+level+`"`), "_meta", mcp.MetaLogLevel); err != nil {
		t.Fatal(err)
	}
	x.Meta = backendtest.MetaOf(x.Request)
	return x
}

// A log message that the server sent on the session's own stream before the response may
// arrive after it. Its request receives it, and no later request does.
func TestUp_LogsOnTheSessionsOwnStream(t *testing.T) {
	t.Parallel()
	s := newOwnStreams(func(s *ownStream, w http.ResponseWriter, m *mcp.Message) {
		s.say(&mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(`{"level":"error","data":` + m.ID.String() + `}`)})
		reply(w, m.ID, `{}`)
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	for range 3 {
		p := backendtest.NewPeer()
		if _, err := b.Do(backendtest.TestContext(t), logAt(t, "info", p)); err != nil {
			t.Fatal(err)
		}
		if len(p.Notes) != 1 {
			t.Errorf("the request received %d log messages", len(p.Notes))
		}
	}
}

// A server that is far away or busy takes longer to accept the session's own stream,
// and what it asks there before is lost.
func TestAQuestionAtAServerThatTakesLong(t *testing.T) {
	t.Parallel()
	s := newOwnStreams(func(s *ownStream, w http.ResponseWriter, m *mcp.Message) {
		if !s.say(backendtest.Request(mcp.IntID(1), mcp.MethodElicitation, `{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`)) {
			reply(w, m.ID, `{"content":[],"isError":true}`)
			return
		}
		<-s.answers
		reply(w, m.ID, `{"content":[]}`)
	})
	s.slow = 2 * wire.ListenTimeout
	b := closeAfter(t, NewStreamable(httpconn.StreamableConfig{URL: serve(t, s).URL}))
	p := backendtest.NewPeer()
	p.Answer = func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
		return mcp.NewResult(q.ID, json.RawMessage(`{"action":"accept","content":{}}`)), nil
	}
	m, err := b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"ask"`, `{"elicitation":{}}`, p))
	if err != nil {
		t.Fatal(err)
	}
	if failed, _, _ := mcp.Lookup(m.Result, "isError"); failed != nil {
		t.Error("the server asked before anybody listened")
	}
}

// Some servers report progress on the session's own stream too. It reaches the request
// whose token it has, also in a session that several share.
func TestProgressOnTheSessionsStreamReachesItsRequest(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	s := newOwnStreams(func(s *ownStream, w http.ResponseWriter, m *mcp.Message) {
		token, _, _ := mcp.Lookup(m.Params, "_meta", "progressToken")
		if s.say(&mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(`{"progressToken":` + string(token) + `,"progress":1}`)}) {
			<-heard
		}
		reply(w, m.ID, `{}`)
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	p := backendtest.NewPeer()
	x := statelessRequest(mcp.MethodToolsCall, `"name":"a"`, `{}`, p)
	var err error
	if x.Request.Params, err = mcp.Set(x.Request.Params, json.RawMessage(`"mine"`), "_meta", "progressToken"); err != nil {
		t.Fatal(err)
	}
	x.Meta = backendtest.MetaOf(x.Request)
	done := make(chan error, 1)
	go func() {
		_, err := b.Do(backendtest.TestContext(t), x)
		done <- err
	}()
	select {
	case m := <-p.Notes:
		if string(m.Params) != `{"progressToken":"mine","progress":1}` {
			t.Errorf("it heard %s", m.Encode())
		}
		close(heard)
		err = <-done
	case err = <-done:
		t.Error("it heard nothing")
	}
	if err != nil {
		t.Error(err)
	}
}
