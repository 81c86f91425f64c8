package httpd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestBacklog_BoundedAndCounted(t *testing.T) {
	held := Budget{Max: 1 << 20}
	b := NewBacklog(&held)
	m := &mcp.Message{Method: "x", Params: json.RawMessage(`{"x":"` + strings.Repeat("x", 8<<10) + `"}`)}
	dropped := 0
	for range MaxBacklog {
		dropped += b.Keep(m)
	}
	if kept := len(b.events); kept < 20 || kept+dropped != MaxBacklog || held.Used() != int64(b.size) || b.size > MaxBacklogBytes {
		t.Errorf("%d are kept, %d dropped, %d bytes counted", kept, dropped, held.Used())
	}
	held.Force(1 << 19) // by others
	if b.Keep(m) != 1 {
		t.Error("a notification is kept although half of the budget is used")
	}
	if events := b.Take(); len(events) < 20 || held.Used() != 1<<19 {
		t.Errorf("%d events, %d bytes are counted afterwards", len(events), held.Used())
	}
}
