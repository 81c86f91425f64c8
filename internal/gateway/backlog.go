package gateway

import "github.com/toolhaven/toolhaven/internal/mcp"

// backlog keeps the newest notifications of a session that has no stream, as
// events ready to be sent.
type backlog struct {
	events [][]byte
	size   int
}

func (b *backlog) keep(m *mcp.Message) {
	event := appendEvent(nil, m)
	if len(event) > maxBacklogBytes {
		return
	}
	b.events = append(b.events, event)
	b.size += len(event)
	for len(b.events) > maxBacklog || b.size > maxBacklogBytes {
		b.size -= len(b.events[0])
		b.events[0] = nil
		b.events = b.events[1:]
	}
}

// take returns all events in order and empties the backlog.
func (b *backlog) take() []byte {
	all := make([]byte, 0, b.size)
	for _, event := range b.events {
		all = append(all, event...)
	}
	*b = backlog{}
	return all
}
