package httpd

import (
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds of one backlog.
const (
	MaxBacklog      = 64
	MaxBacklogBytes = 256 << 10
)

// Backlog keeps the newest notifications of a session without a stream, or of a call that
// waits for its client, as events ready to be sent. Its owner's lock guards it.
type Backlog struct {
	held   *Budget
	events [][]byte
	size   int
}

// NewBacklog makes a backlog whose bytes count in held.
func NewBacklog(held *Budget) Backlog { return Backlog{held: held} }

// Keep adds a notification and returns how many were dropped: the oldest, for which there
// is no room beside it, or itself.
func (b *Backlog) Keep(m *mcp.Message) (dropped int) {
	event := AppendEvent(nil, m)
	if len(event) > MaxBacklogBytes || !b.held.TakeHalf(len(event)) {
		return 1
	}
	b.events = append(b.events, event)
	b.size += len(event)
	for len(b.events) > MaxBacklog || b.size > MaxBacklogBytes {
		b.give(len(b.events[0]))
		b.events[0] = nil
		b.events = b.events[1:]
		dropped++
	}
	return dropped
}

func (b *Backlog) give(bytes int) {
	b.size -= bytes
	b.held.Give(bytes)
}

// Drop drops the notifications that are unwanted.
func (b *Backlog) Drop(unwanted func(*mcp.Message) bool) {
	b.events = slices.DeleteFunc(b.events, func(event []byte) bool {
		m, err := messageOf(event)
		if err != nil || !unwanted(m) {
			return false
		}
		b.give(len(event))
		return true
	})
}

// Take returns all events in order and empties the backlog.
func (b *Backlog) Take() [][]byte {
	events := b.events
	b.Clear()
	return events
}

// Clear empties the backlog.
func (b *Backlog) Clear() {
	b.give(b.size)
	b.events = nil
}
