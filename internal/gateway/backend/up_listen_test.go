package backend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A server that does not answer when it is told of who watches what holds up who
// tells it, and others who want to, for a bounded time.
func TestSubscriptionsAtAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, silentAbout string }{
		{"who subscribes to many", mcp.MethodResourcesSubscribe},
		{"who leaves many", mcp.MethodResourcesUnsubscribe},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sessionServer{capabilities: `{"resources":{"subscribe":true}}`, do: func(ctx context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
					if x.Request.Method == row.silentAbout && strings.Contains(string(x.Request.Params), "a:silent") {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, nil
				}}
				b := atSessions(t, s)
				listen := func(uris ...string) (*backendtest.Peer, context.CancelFunc) {
					ctx, cancel := context.WithCancel(t.Context())
					p := backendtest.NewPeer()
					x := statelessRequest(mcp.MethodSubscriptionsListen, `"notifications":{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`, `{}`, p)
					go func() { _, _ = b.Do(ctx, x) }()
					synctest.Wait()
					return p, cancel
				}
				began := time.Now()
				one, leave := listen("a:silent/1", "a:silent/2", "a:silent/3")
				if row.silentAbout == mcp.MethodResourcesUnsubscribe {
					one.Next(t, mcp.NotificationSubscribed)
					leave()
					synctest.Wait()
				}
				defer leave()
				two, leaveTwo := listen("a:b")
				defer leaveTwo()
				m := two.Next(t, mcp.NotificationSubscribed)
				if raw, _, _ := mcp.Lookup(m.Params, "notifications"); string(raw) != `{"resourceSubscriptions":["a:b"]}` {
					t.Errorf("the other's is acknowledged with %s", raw)
				}
				if row.silentAbout == mcp.MethodResourcesSubscribe {
					m := one.Next(t, mcp.NotificationSubscribed)
					if raw, _, _ := mcp.Lookup(m.Params, "notifications"); string(raw) != `{}` {
						t.Errorf("what the server did not answer is acknowledged with %s", raw)
					}
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// Many servers ask on the session's own stream, as the TypeScript SDK's do unless told
// which request a question is about. The question reaches the client whose call it is
// about all the same, also when others make calls at the same time.
func TestAQuestionOnTheSessionsStreamReachesItsClient(t *testing.T) {
	t.Parallel()
	type session struct {
		ask     chan *mcp.Message
		answers chan *mcp.Message
	}
	var mu sync.Mutex
	sessions := map[string]*session{}
	const clients = 5
	all := make(chan struct{})
	entered := 0
	s := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		here := sessions[r.Header.Get(mcp.HeaderSessionID)]
		mu.Unlock()
		if r.Method == http.MethodGet {
			events(w)
			for {
				select {
				case q := <-here.ask:
					events(w, event(q))
				case <-r.Context().Done():
					return
				}
			}
		}
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		switch {
		case r.Method == http.MethodDelete:
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case m.Method == mcp.MethodDiscover:
			http.Error(w, "no session", http.StatusBadRequest)
		case m.Method == mcp.MethodInitialize:
			id := rand.Text()
			mu.Lock()
			sessions[id] = &session{make(chan *mcp.Message), make(chan *mcp.Message, 1)}
			mu.Unlock()
			w.Header().Set(mcp.HeaderSessionID, id)
			reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`)
		case m.Kind() == mcp.Response:
			here.answers <- m
			w.WriteHeader(http.StatusAccepted)
		case m.Kind() == mcp.Notification:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == mcp.MethodToolsCall:
			mu.Lock()
			if entered++; entered == clients {
				close(all)
			}
			mu.Unlock()
			<-all // so many are in flight at the server
			select {
			case here.ask <- &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodElicitation, Params: json.RawMessage(`{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`)}:
			case <-time.After(backendtest.Patience):
				reply(w, m.ID, `{"structuredContent":{"name":"nobody hears"}}`)
				return
			}
			answer := <-here.answers
			reply(w, m.ID, `{"structuredContent":`+string(answer.Encode())+`}`)
		default:
			reply(w, m.ID, `{}`)
		}
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	var calls sync.WaitGroup
	for i := range clients {
		calls.Go(func() {
			p := backendtest.NewPeer()
			p.Answer = func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
				return mcp.NewResult(q.ID, fmt.Appendf(nil, `{"action":"accept","content":{"name":"client %d"}}`, i)), nil
			}
			m, err := b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"ask"`, `{"elicitation":{}}`, p))
			if err != nil {
				t.Error(err)
				return
			}
			name, _, _ := mcp.LookupString(m.Result, "structuredContent", "result", "content", "name")
			if want := fmt.Sprintf("client %d", i); name != want {
				t.Errorf("%s got %s", want, m.Encode())
			}
		})
	}
	calls.Wait()
}
