package backend

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
