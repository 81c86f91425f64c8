package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

func TestWhatIsForgottenIsNotGoodAgain(t *testing.T) {
	const room = 4
	u := usedOnce{maxGeneration: room}
	name := func(i int) string { return fmt.Sprint("nonce ", i) }
	floor := int64(0)
	for i := 1; i <= 10*room; i++ {
		if err := u.take(name(i), int64(i)); err != nil {
			t.Fatalf("the fresh one of %d: %v", i, err)
		}
		for used := 1; used <= i; used++ {
			if u.take(name(used), int64(used)) == nil {
				t.Fatalf("after %d, that of %d is good twice", i, used)
			}
		}
		if kept := len(u.young.nonces) + len(u.old.nonces); kept > 2*room {
			t.Fatalf("%d are kept", kept)
		}
		if u.floor < floor {
			t.Fatalf("the floor sinks from %d to %d", floor, u.floor)
		}
		floor = u.floor
	}
	if err := u.take("late", floor); !errors.Is(err, errStateExpired) {
		t.Errorf("one as old as the newest forgotten: %v", err)
	}
	if err := u.take("in time", floor+1); err != nil {
		t.Errorf("one above the floor, after newer ones: %v", err)
	}
	// The newest decides, not the last that came.
	mixed := usedOnce{maxGeneration: 2}
	for i, issued := range []int64{100, 50, 101, 102, 103} {
		if err := mixed.take(name(i), issued); err != nil {
			t.Fatalf("issued at %d: %v", issued, err)
		}
	}
	if err := mixed.take("forgotten", 99); mixed.floor != 100 || !errors.Is(err, errStateExpired) {
		t.Errorf("the floor is %d; %v", mixed.floor, err)
	}
}

func TestOneUseIsOneAlsoWhenManyTry(t *testing.T) {
	u := usedOnce{maxGeneration: 3}
	var good atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				if u.take(fmt.Sprint(i), int64(i)) == nil {
					good.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := good.Load(); n > 200 {
		t.Errorf("%d uses of 200", n)
	}
}

func TestAServersStateIsNotGoodTwiceHoweverManyThereAre(t *testing.T) {
	b := newFakeBackend()
	b.do = askFirst
	g, srv := serve(t, b, nil, nil)
	g.used.maxGeneration = 4
	c := newWire(t, srv)
	headers := modernHeaders("tools/call", "add")
	ask := func() string {
		return c.post(req("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+modernMeta(`"roots":{}`)+`}`), headers...).inputRequired(t).RequestState
	}
	use := func(state string) *answer { return c.post(again("2", "add", state, `{"q":{"roots":[]}}`), headers...) }
	idle, first := ask(), ask()
	if a := use(first); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for range 20 {
		state := ask()
		if a := use(state); a.status != 200 {
			t.Fatalf("a fresh one: got %d %s", a.status, a.body)
		}
		if a := use(state); a.status != 400 || a.code(t) != mcp.CodeInvalidParams {
			t.Fatalf("a used one: got %d %s", a.status, a.body)
		}
	}
	for name, state := range map[string]string{"used": first, "older and never used": idle} {
		a := use(state)
		if a.status != 400 || a.message(t).Error.Message != errStateExpired.Message {
			t.Errorf("%s: got %d %s", name, a.status, a.body)
		}
	}
}

func TestAServersStateIsNotGoodAgainAfterARestart(t *testing.T) {
	key := seal.NewKey()
	start := func() *wire {
		b := newFakeBackend()
		b.do = askFirst
		_, srv := serve(t, b, func(c *Config) { c.Key = key }, nil)
		return newWire(t, srv)
	}
	headers := modernHeaders("tools/call", "add")
	ask := func(c *wire) string {
		return c.post(req("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+modernMeta(`"roots":{}`)+`}`), headers...).inputRequired(t).RequestState
	}
	use := func(c *wire, state string) *answer {
		return c.post(again("2", "add", state, `{"q":{"roots":[]}}`), headers...)
	}
	before := start()
	state := ask(before)
	if a := use(before, state); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	after := start()
	if a := use(after, state); a.status != 400 || a.message(t).Error.Message != errStateExpired.Message {
		t.Errorf("the next gateway takes it: %d %s", a.status, a.body)
	}
	if a := use(after, ask(after)); a.status != 200 {
		t.Errorf("it does not take its own: %d %s", a.status, a.body)
	}
}

// askFirst is a server with a state of its own: it asks, and is content with any
// answer.
func askFirst(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
	_, found, err := mcp.LookupString(x.Request.Params, "requestState")
	switch {
	case err != nil:
		return nil, err
	case found:
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"complete"}`)), nil
	}
	return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}},"requestState":"mine"}`)), nil
}
