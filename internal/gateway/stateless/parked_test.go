package stateless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// patience bounds every wait of a test.
const patience = time.Minute

func newCore(t *testing.T) *httpd.Core {
	t.Helper()
	sealer, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return &httpd.Core{
		Sealer: sealer, Log: slog.New(slog.DiscardHandler), Timing: httpd.DefaultTiming(), Context: t.Context(),
		Inbound: httpd.Budget{Max: httpd.MaxInbound}, Held: httpd.Budget{Max: httpd.MaxHeld},
	}
}

func TestParkedCalls_EvictsTheLongestWaiting(t *testing.T) {
	table := parkedCalls{core: newCore(t)}
	ended := map[string]bool{}
	add := func(id string, waits bool) {
		c := &call{id: id, open: map[string]*question{"1": {}}, cancel: func(err error) { ended[id] = errors.Is(err, errAbandoned) }}
		c.notes.backlog = httpd.NewBacklog(&table.core.Held)
		table.add(c)
		if !waits {
			table.resume(c)
		}
	}
	defer table.close()
	// A call whose client has continued it does not wait.
	add("continued", false)
	add("first", true)
	add("second", true)
	for _, want := range []string{"first", "second"} {
		table.evict()
		if !ended[want] || len(ended) > 1 {
			t.Errorf("ended: %v; want %s", ended, want)
		}
		delete(ended, want)
	}
	table.evict()
	if len(ended) > 0 || table.len() != 1 || table.get("continued") == nil {
		t.Errorf("ended: %v, left: %d", ended, table.len())
	}
}

func TestParkedCalls_BoundedInNumber(t *testing.T) {
	table := parkedCalls{core: newCore(t)}
	defer table.close()
	ended := map[string]bool{}
	for i := range maxParked + 2 {
		id := fmt.Sprint(i)
		c := &call{id: id, cancel: func(error) { ended[id] = true }}
		c.notes.backlog = httpd.NewBacklog(&table.core.Held)
		table.add(c)
		if i == 0 {
			table.resume(c) // its client is back
		}
	}
	table.mu.Lock()
	table.fit(&call{body: &httpd.Reservation{}})
	table.mu.Unlock()
	if !ended["1"] || len(ended) != 1 {
		t.Errorf("ended %v, want the one that waited longest", ended)
	}
}

func TestParkedCalls_ResponsesAreBounded(t *testing.T) {
	const unit = httpd.SmallSize + 1
	core := newCore(t)
	core.Inbound.Max, core.Held.Max = 4*5*unit, 100*unit
	table := parkedCalls{core: core}
	defer table.close()
	ended := ""
	for _, id := range []string{"small", "first", "second", "third"} {
		c := &call{id: id, cancel: func(error) { ended += id + " " }}
		c.notes.backlog = httpd.NewBacklog(&core.Held)
		table.add(c)
		if id != "small" {
			reserved, _ := core.Held.Reserve(2 * unit)
			table.keepAnswer(c, reserved)
		}
	}
	// One that is too large by itself does not end itself.
	reserved, _ := core.Held.Reserve(8 * unit)
	table.keepAnswer(table.get("small"), reserved)
	if want := "first second third "; ended != want || table.len() != 1 || core.Held.Used() != 8*unit {
		t.Errorf("ended: %s, want %s; %d calls wait, with %d bytes", ended, want, table.len(), core.Held.Used())
	}
}

// asking begins a call whose server sends a request, and parks it.
func asking(t *testing.T, f *Front) *call {
	t.Helper()
	f.core.Handler = func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		answer, err := x.Peer.Ask(ctx, &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodElicitation, Params: json.RawMessage(`{}`)})
		if err != nil {
			return nil, err
		}
		return mcp.NewResult(x.Request.ID, answer.Result), nil
	}
	x := &exchange.Exchange{
		Client:  &exchange.Client{Capabilities: json.RawMessage(`{"elicitation":{}}`)},
		Request: &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodToolsCall, Params: json.RawMessage(`{"name":"x"}`)},
	}
	c := f.begin(t.Context(), x, nil)
	<-c.asked
	if result, err := c.park(); err != nil || result == nil {
		t.Fatalf("park: %s, %v", result, err)
	}
	return c
}

func TestCall_NothingIsKeptAfterEviction(t *testing.T) {
	f := New(newCore(t))
	c := asking(t, f)
	done := c.done
	ref := weak.Make(c)
	c = nil
	f.Evict()
	<-done
	if f.Parked() != 0 {
		t.Errorf("%d calls wait", f.Parked())
	}
	for end := time.Now().Add(patience); ref.Value() != nil; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal("the call is kept")
		}
	}
}

func TestCall_ResponseWithoutRoomBecomesAnError(t *testing.T) {
	for _, room := range []int64{0, 1 << 20} {
		f := New(newCore(t))
		c := asking(t, f)
		f.core.Held.Max = room
		answer := json.RawMessage(`{"x":"` + string(make([]byte, 2*httpd.SmallSize)) + `"}`)
		c.mu.Lock()
		for key, q := range c.open {
			delete(c.open, key)
			q.answered <- httpd.Answer{Result: answer}
		}
		c.mu.Unlock()
		<-c.done
		if refused := c.response.Error == httpd.ErrAnswerRoom; refused != (room == 0) {
			t.Errorf("room for %d: %+v", room, c.response.Error)
		}
		if used := f.core.Held.Used(); (used > 0) != (room > 0) {
			t.Errorf("room for %d: %d bytes are used", room, used)
		}
		f.Close()
		if used := f.core.Held.Used(); used != 0 {
			t.Errorf("room for %d: %d bytes are used in the end", room, used)
		}
	}
}
