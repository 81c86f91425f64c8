package gateway

import (
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// backlog keeps the newest notifications of a session that has no stream, as
// events ready to be sent.
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
