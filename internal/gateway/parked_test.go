package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestRoomIsMadeByWhoHasWaitedLongest(t *testing.T) {
	var table parkedCalls
	ended := map[string]bool{}
	call := func(id string, waits bool) *modernCall {
		c := &modernCall{id: id, open: map[string]*question{"1": {}}, cancel: func(err error) { ended[id] = errors.Is(err, errAbandoned) }}
		table.add(c, patience)
		if !waits {
			table.resume(c)
		}
		return c
	}
	defer table.close()
	// One whose client is there, with its answers or a new POST, is not waiting.
	call("continued", false)
	call("first", true)
	call("second", true)
	for _, want := range []string{"first", "second"} {
		table.makeRoom()
		if !ended[want] || len(ended) > 1 {
			t.Errorf("ended: %v; want %s", ended, want)
		}
		delete(ended, want)
	}
	table.makeRoom()
	if len(ended) > 0 || table.len() != 1 || table.get("continued") == nil {
		t.Errorf("ended: %v, left: %d", ended, table.len())
	}
}

func TestOutcomesThatNobodyFetchesLeaveRoomForOthers(t *testing.T) {
	table, room := parkedCalls{max: 5}, memory{max: 100}
	defer table.close()
	ended := ""
	for _, id := range []string{"small", "first", "second", "third"} {
		c := &modernCall{id: id, cancel: func(error) { ended += id + " " }}
		table.add(c, patience)
		if id != "small" {
			l, _ := room.lend(2, 0)
			table.lend(c, l)
		}
	}
	// Nor does one that comes too large end itself.
	l, _ := room.lend(8, 0)
	table.lend(table.get("small"), l)
	if want := "first second third "; ended != want || table.len() != 1 || room.used.Load() != 8 {
		t.Errorf("ended: %s, want %s; %d calls wait, with %d bytes", ended, want, table.len(), room.used.Load())
	}
}

// callThatAsks is the body of a call that its server asks something about.
func callThatAsks(id string) string {
	return req(id, "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+modernMeta(`"elicitation":{},"roots":{}`)+`}`)
}

func TestACallWhoseClientIsBackMakesRoomForNobody(t *testing.T) {
	b := newFakeBackend()
	answered, release := make(chan struct{}), make(chan struct{})
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if _, err := x.Peer.Ask(ctx, elicit); err != nil {
			return nil, err
		}
		close(answered)
		select {
		case <-release:
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	headers := modernHeaders("tools/call", "add")
	state := c.post(callThatAsks("1"), headers...).inputRequired(t).RequestState
	outcome := c.background(again("2", "add", state, `{"1":{"action":"accept"}}`), headers...)
	receive(t, "the answer", answered)
	ended := map[string]bool{}
	for i := range maxParked + 1 {
		id := fmt.Sprint(i)
		g.parked.add(&modernCall{id: id, cancel: func(error) { ended[id] = true }}, patience)
	}
	if !ended["0"] || len(ended) != 1 {
		t.Errorf("ended %v, want the one that waited longest", ended)
	}
	close(release)
	if a := receive(t, "the outcome", outcome); a.code(t) != 0 {
		t.Errorf("got %s", a.body)
	}
}

func TestNothingIsKeptOfACallThatMadeRoom(t *testing.T) {
	b, heard := inquisitive(t, elicit)
	g, srv := serve(t, b, nil, nil)
	newWire(t, srv).post(callThatAsks("1"), modernHeaders("tools/call", "add")...).inputRequired(t)
	var call weak.Pointer[modernCall]
	g.parked.mu.Lock()
	for _, c := range g.parked.calls {
		call = weak.Make(c)
	}
	g.parked.mu.Unlock()
	g.parked.makeRoom()
	receive(t, "the end", heard)
	<-b.conns // the fake keeps it too
	eventually(t, "the call to be collected", func() bool { runtime.GC(); return call.Value() == nil })
}

func (t *parkedCalls) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}
