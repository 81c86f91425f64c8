package backend

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A server that does not answer when it is told of who watches what holds up who
// tells it, and others who want to, for a bounded time.
func TestSubscriptionsAtAServerThatDoesNotAnswer(t *testing.T) {
	for _, row := range []struct{ name, silentAbout string }{
		{"who subscribes to many", mcp.MethodResourcesSubscribe},
		{"who leaves many", mcp.MethodResourcesUnsubscribe},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sessionServer{capabilities: `{"resources":{"subscribe":true}}`, do: func(ctx context.Context, _ *atOne, x *gateway.Exchange) (*mcp.Message, error) {
					if x.Request.Method == row.silentAbout && strings.Contains(string(x.Request.Params), "a:silent") {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, nil
				}}
				b := atSessions(t, s)
				listen := func(uris ...string) (*peer, context.CancelFunc) {
					ctx, cancel := context.WithCancel(t.Context())
					p := newPeer()
					x := statelessRequest(mcp.MethodSubscriptionsListen, `"notifications":{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`, `{}`, p)
					go func() { _, _ = b.Do(ctx, x) }()
					synctest.Wait()
					return p, cancel
				}
				began := time.Now()
				one, leave := listen("a:silent/1", "a:silent/2", "a:silent/3")
				if row.silentAbout == mcp.MethodResourcesUnsubscribe {
					one.next(t, mcp.NotificationSubscribed)
					leave()
					synctest.Wait()
				}
				defer leave()
				two, leaveTwo := listen("a:b")
				defer leaveTwo()
				m := two.next(t, mcp.NotificationSubscribed)
				if raw, _, _ := mcp.Lookup(m.Params, "notifications"); string(raw) != `{"resourceSubscriptions":["a:b"]}` {
					t.Errorf("the other's is acknowledged with %s", raw)
				}
				if row.silentAbout == mcp.MethodResourcesSubscribe {
					m := one.next(t, mcp.NotificationSubscribed)
					if raw, _, _ := mcp.Lookup(m.Params, "notifications"); string(raw) != `{}` {
						t.Errorf("what the server did not answer is acknowledged with %s", raw)
					}
				}
				if took := time.Since(began); took > watchTime {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// Where the requests that the server may ask during are too many for one session,
// there is another. Who watches a resource in the one is told of as leaving it, also
// when somebody watches in the other by then.
func TestSubscriptionsInTwoSessions(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 2*maxAsking)
	heard := make(chan string, 100)
	sessions := 0
	s := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		switch {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case m.Method == mcp.MethodDiscover:
			http.Error(w, "no session", http.StatusBadRequest)
			return
		case m.Method == mcp.MethodInitialize:
			sessions++ // one after the other
			w.Header().Set(mcp.HeaderSessionID, fmt.Sprint(sessions))
			reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}}}`)
			return
		case m.Kind() == mcp.Notification:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == mcp.MethodToolsCall:
			entered <- struct{}{}
			<-release
		case strings.HasPrefix(m.Method, "resources/"):
			heard <- m.Method + " in " + r.Header.Get(mcp.HeaderSessionID)
		}
		reply(w, m.ID, `{}`)
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	const capabilities = `{"elicitation":{}}`
	watch := func() func() {
		ctx, cancel := context.WithCancel(testContext(t))
		p, ended := newPeer(), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.Do(ctx, statelessRequest(mcp.MethodSubscriptionsListen, `"notifications":{"resourceSubscriptions":["a:b"]}`, capabilities, p))
		}()
		p.next(t, mcp.NotificationSubscribed)
		return func() { cancel(); <-ended }
	}
	var calls sync.WaitGroup
	call := func() {
		calls.Go(func() {
			if _, err := b.Do(testContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"a"`, capabilities, newPeer())); err != nil {
				t.Error(err)
			}
		})
		<-entered
	}
	leaveOne := watch()
	for range maxAsking { // with the subscription there are more than fit in
		call()
	}
	leaveTwo := watch()
	leaveOne()
	leaveTwo()
	close(release)
	calls.Wait()
	var got []string
	for len(heard) > 0 {
		got = append(got, <-heard)
	}
	if diff := cmp.Diff([]string{
		"resources/subscribe in 1", "resources/subscribe in 2", "resources/unsubscribe in 1", "resources/unsubscribe in 2",
	}, got); diff != "" {
		t.Error(diff)
	}
}
