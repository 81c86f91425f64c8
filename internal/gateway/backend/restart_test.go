package backend

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// turncoat is a server that is of the one era or of the other.
type turncoat struct {
	stateless atomic.Bool
	starts    atomic.Int64 // how often it has started: its sessions and streams end then
	calls     atomic.Int64 // of tools
	headers   bool         // in the stateless era it misses the era's headers first
	started   chan struct{}
}

func (s *turncoat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := mcp.Parse(body)
	switch {
	case r.Method == http.MethodGet && !s.stateless.Load():
		events(w)
		select {
		case <-s.started:
		case <-r.Context().Done():
		}
	case r.Method != http.MethodPost || err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case s.stateless.Load():
		s.inStatelessEra(w, r, m)
	default:
		s.inSessionEra(w, r, m)
	}
}

func (s *turncoat) inStatelessEra(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
	version := r.Header.Get(mcp.HeaderVersion)
	switch {
	case m.Kind() == mcp.Notification:
		w.WriteHeader(http.StatusAccepted)
	case s.headers && r.Header.Get(mcp.HeaderMethod) == "":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(mcp.NewError(m.ID, mcp.CodeHeaderMismatch, "Mcp-Method is missing").Encode())
	case version != string(mcp.V20260728):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write((&mcp.Message{ID: m.ID, Error: &mcp.Error{
			Code: mcp.CodeUnsupportedVersion, Message: "no", Data: []byte(`{"supported":["2026-07-28"],"requested":"2025-11-25"}`),
		}}).Encode())
	case m.Method == mcp.MethodDiscover:
		reply(w, m.ID, backendtest.Everything)
	case m.Method == mcp.MethodSubscriptionsListen:
		events(w, event(&mcp.Message{Method: mcp.NotificationSubscribed, Params: []byte(
			`{"_meta":{"` + mcp.MetaSubscription + `":` + m.ID.String() + `},"notifications":{"toolsListChanged":true}}`)}))
		select {
		case <-s.started:
		case <-r.Context().Done():
		}
	default:
		s.answer(w, m)
	}
}

func (s *turncoat) inSessionEra(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
	switch session := string(rune('a' + s.starts.Load())); {
	case m.Method == mcp.MethodInitialize:
		w.Header().Set(mcp.HeaderSessionID, session)
		reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`)
	case r.Header.Get(mcp.HeaderSessionID) != session:
		rpcStatus(w, http.StatusBadRequest, -32000, "Bad Request: no valid session ID")
	case m.Kind() == mcp.Notification:
		w.WriteHeader(http.StatusAccepted)
	default:
		s.answer(w, m)
	}
}

func (s *turncoat) answer(w http.ResponseWriter, m *mcp.Message) {
	if m.Method == mcp.MethodToolsCall {
		s.calls.Add(1)
	}
	reply(w, m.ID, `{"resultType":"complete","tools":[],"content":[]}`)
}

// restart makes it one of that era.
func (s *turncoat) restart(stateless bool) {
	s.stateless.Store(stateless)
	s.starts.Add(1)
	close(s.started)
}

// A server is replaced by one of the other era: a session ends with the error that makes
// its client initialize again, and stateless requests go on.
func TestRestart_OtherEra(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name               string
		stateless, headers bool
	}{
		{"sessions no more", false, false},
		{"sessions no more, and headers missed", false, true},
		{"sessions now", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &turncoat{headers: test.headers, started: make(chan struct{})}
			s.stateless.Store(test.stateless)
			b := closeAfter(t, streamableBackend(serve(t, s).URL))
			ctx := backendtest.TestContext(t)
			list := func() *exchange.Exchange { return statelessRequest("prompts/list", "", `{}`, nil) }
			conn := open(t, b, nil)
			if _, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsList, `{}`), nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Do(ctx, list()); err != nil {
				t.Fatal(err)
			}
			s.restart(!test.stateless)

			if m, err := b.Do(ctx, list()); err != nil || m.Error != nil {
				t.Errorf("without a session: %s", backendtest.Text(m, err))
			}

			if m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(2), mcp.MethodToolsList, `{}`), nil)); backendtest.CodeOf(err) != mcp.CodeSessionNotFound {
				t.Errorf("in the session: %s; want the error that makes a client initialize again", backendtest.Text(m, err))
			}
			select {
			case <-conn.Done():
			default:
				t.Error("the session is not over")
			}
			again := open(t, b, nil)
			if m, err := again.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsList, `{}`), nil)); err != nil || m.Error != nil {
				t.Errorf("in a new session: %s", backendtest.Text(m, err))
			}
			if m, err := b.Do(ctx, statelessRequest(mcp.MethodToolsCall, `"name":"a"`, `{}`, nil)); err != nil || m.Error != nil || s.calls.Load() != 1 {
				t.Errorf("a call without a session: %s, made %d times", backendtest.Text(m, err), s.calls.Load())
			}
		})
	}
}

// Sessions that only listen end too.
func TestRestart_EndsSessionsThatListen(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"sessions no more": false, "sessions now": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &turncoat{started: make(chan struct{})}
			s.stateless.Store(stateless)
			b := closeAfter(t, streamableBackend(serve(t, s).URL))
			conn := open(t, b, backendtest.NewPeer())
			conn.Listen()
			p := backendtest.NewPeer()
			subscription := beginModern(backendtest.TestContext(t), b, statelessRequest(mcp.MethodSubscriptionsListen, `"notifications":{"toolsListChanged":true}`, `{}`, p))
			p.Next(t, mcp.NotificationSubscribed)
			s.restart(!stateless)
			select {
			case <-conn.Done():
			case <-backendtest.TestContext(t).Done():
				t.Error("the session is not over")
			}
			if m, err := backendtest.Wait(t, subscription); err == nil {
				t.Errorf("the subscription ended with %s", backendtest.Text(m, err))
			}
		})
	}
}

// One refusal, which may be of a proxy in front of the server, does not end a session:
// the server is probed before the next request.
func TestRestart_OneRefusalKeepsTheSession(t *testing.T) {
	t.Parallel()
	s := &turncoat{started: make(chan struct{})}
	s.stateless.Store(true)
	var away atomic.Bool
	b := closeAfter(t, streamableBackend(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The session's subscription may begin late; it is not the request that is refused.
		if away.Load() && r.Header.Get(mcp.HeaderMethod) == mcp.MethodToolsList {
			http.Error(w, "no such backend", http.StatusNotFound)
			return
		}
		s.ServeHTTP(w, r)
	})).URL))
	ctx := backendtest.TestContext(t)
	conn := open(t, b, nil)
	away.Store(true)
	if m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsList, `{}`), nil)); backendtest.CodeOf(err) != mcp.CodeServerGone {
		t.Errorf("got %s", backendtest.Text(m, err))
	}
	away.Store(false)
	if m, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(2), mcp.MethodToolsList, `{}`), nil)); err != nil || m.Error != nil {
		t.Errorf("afterwards: %s", backendtest.Text(m, err))
	}
}
