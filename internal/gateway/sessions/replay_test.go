package sessions

import (
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
)

func TestReplay_Bounded(t *testing.T) {
	held := httpd.Budget{Max: 1 << 20}
	p := replay{held: &held}
	now := time.Now()
	for i := range uint64(3 * maxReplay) {
		p.keep(replayEvent{stream: i % 2, number: i, at: now, event: make([]byte, 10)})
	}
	if len(p.events) != maxReplay || p.size != 10*maxReplay || held.Used() != int64(p.size) {
		t.Errorf("%d events, %d bytes", len(p.events), p.size)
	}
	for i := range uint64(10) {
		p.keep(replayEvent{stream: 1, number: 10_000 + i, at: now, event: make([]byte, maxReplayBytes/4), unread: i == 9})
	}
	if len(p.events) != 4 || p.size > maxReplayBytes {
		t.Errorf("%d events, %d bytes", len(p.events), p.size)
	}
	if after, known := p.after(1, 10_007); len(after) != 2 || !known {
		t.Errorf("%d events, %v", len(after), known)
	}
	p.trim(now.Add(time.Second))
	if len(p.events) != 1 || !p.events[0].unread {
		t.Errorf("%d events are left of one that was not read", len(p.events))
	}
	if p.keep(replayEvent{stream: 1, number: 1, at: now, event: make([]byte, maxReplayBytes+1)}) || len(p.events) != 1 {
		t.Errorf("%d events with one that is too large", len(p.events))
	}
	p.clear()
	held.Force(1 << 19) // by other sessions
	if p.keep(replayEvent{stream: 1, number: 1, at: now, event: make([]byte, 1<<10)}) || held.Used() != 1<<19 {
		t.Errorf("an event is kept although half of the budget is used")
	}
}
