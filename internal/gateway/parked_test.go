package gateway

import (
	"errors"
	"testing"
)

func TestRoomIsMadeByWhoHasWaitedLongest(t *testing.T) {
	var table parkedCalls
	ended := map[string]bool{}
	call := func(id string, waits bool) *modernCall {
		c := &modernCall{id: id, open: map[string]*question{"1": {}}, cancel: func(err error) { ended[id] = errors.Is(err, errAbandoned) }}
		if !waits {
			c.reply = &reply{}
		}
		table.add(c)
		return c
	}
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
