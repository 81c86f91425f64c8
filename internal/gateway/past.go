package gateway

import (
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of what is kept for clients that come back to a stream.
const (
	maxPast      = 256       // events of one session
	maxPastBytes = 256 << 10 // and their bytes
	// maxPastTotal is for all sessions of a gateway together. Beyond it each
	// keeps only tightPastBytes.
	maxPastTotal   = 64 << 20
	tightPastBytes = 16 << 10
	// pastTime is how long an event is kept that went to a client that was there.
	// What nobody read is kept as long as the session.
	pastTime = 5 * time.Minute
)

// past is what went out on the streams of a session, newest last, for clients
// that lost a stream and come back to it (MCP 2025-11-25, basic/transports,
// Resumability and Redelivery). The zero past is empty and costs nothing. The
// session's mutex guards it.
type past struct {
	events []pastEvent
	size   int
	total  *atomic.Int64 // of the gateway; nil counts nothing
}

type pastEvent struct {
	stream, number uint64
	at             time.Time
	unread         bool // its client was away
	event          []byte
}

// keep adds an event and drops the oldest that have no room beside it.
func (p *past) keep(e pastEvent) {
	p.events = append(p.events, e)
	p.count(len(e.event))
	limit := maxPastBytes
	if p.total != nil && p.total.Load() > maxPastTotal {
		limit = tightPastBytes
	}
	drop := 0
	for size := p.size; len(p.events)-drop > maxPast || size > limit; drop++ {
		size -= len(p.events[drop].event)
	}
	for i := range p.events[:drop] {
		p.count(-len(p.events[i].event))
		p.events[i] = pastEvent{}
	}
	p.events = p.events[drop:]
}

func (p *past) count(bytes int) {
	p.size += bytes
	if p.total != nil {
		p.total.Add(int64(bytes))
	}
}

// after returns what the stream carried after the event of that number. known:
// something of the stream is still there.
func (p *past) after(stream, number uint64) (events []pastEvent, known bool) {
	for _, e := range p.events {
		if e.stream == stream {
			known = true
			if e.number > number {
				events = append(events, e)
			}
		}
	}
	return events, known
}

// mark notes whether the client of the stream has read what it carried.
func (p *past) mark(stream uint64, unread bool) {
	for i := range p.events {
		if p.events[i].stream == stream {
			p.events[i].unread = unread
		}
	}
}

// trim drops what is older than before and was read.
func (p *past) trim(before time.Time) {
	if len(p.events) == 0 {
		return
	}
	p.events = slices.DeleteFunc(p.events, func(e pastEvent) bool {
		old := !e.unread && e.at.Before(before)
		if old {
			p.count(-len(e.event))
		}
		return old
	})
	if len(p.events) == 0 {
		p.events = nil
	}
}

func (p *past) clear() {
	p.count(-p.size)
	p.events = nil
}
