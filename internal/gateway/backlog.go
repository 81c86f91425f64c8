package gateway

import (
	"slices"
	"sync"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// backlog keeps the newest notifications of a session that has no stream, or of a call
// that waits for its client, as events ready to be sent.
type backlog struct {
	events [][]byte
	size   int
	memory *memory // of the gateway; nil counts nothing
}

// keep adds a notification and drops the oldest that have no room beside it.
func (b *backlog) keep(m *mcp.Message) {
	event := appendEvent(nil, m)
	limit := maxBacklogBytes
	if b.memory != nil && !b.memory.has(len(event)) {
		limit = tightBacklogBytes
	}
	if len(event) > limit {
		return
	}
	b.events = append(b.events, event)
	b.count(len(event))
	for len(b.events) > maxBacklog || b.size > limit {
		b.count(-len(b.events[0]))
		b.events[0] = nil
		b.events = b.events[1:]
	}
}

func (b *backlog) count(bytes int) {
	b.size += bytes
	if b.memory != nil {
		b.memory.force(bytes)
	}
}

// drop drops the notifications that are unwanted.
func (b *backlog) drop(unwanted func(*mcp.Message) bool) {
	b.events = slices.DeleteFunc(b.events, func(event []byte) bool {
		m, err := messageOf(event)
		if err != nil || !unwanted(m) {
			return false
		}
		b.count(-len(event))
		return true
	})
}

// take returns all events in order and empties the backlog.
func (b *backlog) take() []byte {
	all := make([]byte, 0, b.size)
	for _, event := range b.events {
		all = append(all, event...)
	}
	b.clear()
	return all
}

func (b *backlog) clear() {
	b.count(-b.size)
	b.events = nil
}

// notes are the backlog of a call. They have a lock of their own: whoever ends the call
// gives them back, whatever else he holds.
type notes struct {
	mu      sync.Mutex
	over    bool // nobody comes for them any more
	backlog backlog
}

func (n *notes) keep(m *mcp.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over {
		n.backlog.keep(m)
	}
}

// take returns all events in order, but those that are unwanted, and keeps none.
func (n *notes) take(unwanted func(*mcp.Message) bool) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.backlog.drop(unwanted)
	return n.backlog.take()
}

// close gives back what is kept, and keeps nothing from then on.
func (n *notes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	n.backlog.clear()
}
