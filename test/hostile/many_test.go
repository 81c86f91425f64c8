//go:build hostile

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Ten thousand calls wait for answers that never come. So many are kept, the
// others are given up at the server too; whoever comes back to one of those is
// told, and whoever asks for nothing is served.
func TestTenThousandParkedCalls(t *testing.T) {
	noLeaks(t)
	ctx := timed(t)
	memory := watchMemory(t)
	s := &Server{}
	_, c := inMemory(t, s, true)
	states := make([]string, 10_000)
	var all sync.WaitGroup
	slots := make(chan struct{}, 256)
	arguments := func(n int) string { return fmt.Sprintf(`"arguments":{"nonce":"%d","kind":"ask"}`, n) }
	for n := range states {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			o, err := c.once(ctx, c.modernCall(1, arguments(n)))
			if err != nil || o.Response == nil || o.Response.Error == nil && !asking(o) {
				t.Errorf("%v, %v", o, err)
				return
			}
			states[n], _, _ = mcp.LookupString(o.Response.Result, "requestState")
		})
	}
	all.Wait()
	memory.check(t, "parked")
	if o, err := c.Call(ctx, mcp.IntID(1), "good", `{"nonce":"me"}`, ""); err != nil || o.Text() != "me" {
		t.Errorf("%v, %v", o, err)
	}
	waiting := 0
	for n, state := range states {
		if n > 100 && n < len(states)-100 {
			continue
		}
		o, err := c.once(ctx, c.modernCall(2, arguments(n)+`,"inputResponses":{"1":{"action":"accept","content":{"nonce":"back"}}},"requestState":"`+state+`"`))
		if err != nil || o.Response == nil || o.Response.Error == nil && o.Text() != "back" {
			t.Fatalf("%v, %v", o, err)
		}
		if o.Response.Error == nil {
			waiting++
		}
	}
	if waiting < 80 || waiting > 120 { // the last hundred, or nearly
		t.Errorf("%d of 200 calls wait", waiting)
	}
	for s.Abandoned.Load() < 8_500 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if n := s.Abandoned.Load(); n < 8_500 {
		t.Errorf("%d calls were given up at the server", n)
	}
}

// A client that says it can do something else each time makes the gateway open a
// session of its own at a server of the session era: not without end.
func TestCapabilitiesByTheThousand(t *testing.T) {
	noLeaks(t)
	ctx := timed(t)
	memory := watchMemory(t)
	s := &Server{}
	_, c := inMemory(t, s, true)
	var all sync.WaitGroup
	slots := make(chan struct{}, 64)
	for n := range 400 { // more than are kept
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			own := *c
			own.Capabilities = fmt.Sprintf(`{"experimental":{"x%d":{"y":"%s"}}}`, n, strings.Repeat("x", 32<<10))
			if o, err := own.Call(ctx, mcp.IntID(1), "good", `{"nonce":"me"}`, ""); err != nil || o.Text() != "me" {
				t.Errorf("%v, %v", o, err)
			}
		})
	}
	all.Wait()
	memory.check(t, "capabilities")
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.sessions); n > 300 {
		t.Errorf("%d sessions are open at the server", n)
	}
}

// Subscriptions by the thousand, of both eras' servers, and all closed again.
func TestThousandsOfSubscriptions(t *testing.T) {
	for _, modernServer := range []bool{false, true} {
		t.Run(fmt.Sprint("modern server ", modernServer), func(t *testing.T) {
			noLeaks(t)
			ctx, cancel := context.WithCancel(timed(t))
			defer cancel()
			memory := watchMemory(t)
			_, c := inMemory(t, &Server{Modern: modernServer}, true)
			var begun, all sync.WaitGroup
			for n := range 2000 {
				begun.Add(1)
				all.Go(func() {
					m := &mcp.Message{ID: mcp.IntID(int64(n)), Method: mcp.MethodSubscriptionsListen, Params: json.RawMessage(fmt.Sprintf(
						`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x://%d"]},"_meta":{%q:"2026-07-28",%q:{}}}`, n%50, mcp.MetaVersion, mcp.MetaCapabilities))}
					resp, err := c.Send(ctx, http.MethodPost, m.Encode(), c.HeaderOf(m))
					if err != nil {
						t.Error(err)
						begun.Done()
						return
					}
					defer resp.Body.Close()
					e, err := mcp.NewEventReader(resp.Body, mcp.MaxEvent).Next()
					if err != nil || !strings.Contains(string(e.Data), mcp.NotificationSubscribed) || !strings.Contains(string(e.Data), fmt.Sprintf(`%q:%d`, mcp.MetaSubscription, n)) {
						t.Errorf("%s, %v", e.Data, err)
					}
					begun.Done()
					_, _ = io.Copy(io.Discard, resp.Body)
				})
			}
			begun.Wait()
			if o, err := c.Call(ctx, mcp.IntID(1), "good", `{"nonce":"me"}`, ""); err != nil || o.Text() != "me" {
				t.Errorf("%v, %v", o, err)
			}
			memory.check(t, "subscriptions")
			cancel()
			all.Wait()
		})
	}
}

// Floods of cancellations touch nobody else's calls.
func TestCancelFloods(t *testing.T) {
	for _, modernServer := range []bool{false, true} {
		t.Run(fmt.Sprint("modern server ", modernServer), func(t *testing.T) {
			noLeaks(t)
			ctx := timed(t)
			s := &Server{Modern: modernServer}
			_, victim := inMemory(t, s, false)
			attacker := *victim
			for _, c := range []*Client{victim, &attacker} {
				if err := c.Open(ctx); err != nil {
					t.Fatal(err)
				}
			}
			call, hangUp := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() {
				o, err := victim.Call(call, mcp.IntID(7), "forever", `{"nonce":"v"}`, "")
				done <- fmt.Errorf("%v, %w", o, err)
			}()
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					for id := range 500 {
						if err := attacker.Notify(ctx, mcp.NotificationCancelled, fmt.Sprintf(`{"requestId":%d}`, (id+n)%20)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			select {
			case err := <-done:
				t.Errorf("the call ended: %v", err)
			default:
			}
			if n := s.Cancelled.Load(); n != 0 {
				t.Errorf("%d calls were cancelled", n)
			}
			if err := victim.Notify(ctx, mcp.NotificationCancelled, `{"requestId":7}`); err != nil {
				t.Error(err)
			}
			<-done
			hangUp()
		})
	}
}
