package sessions

import (
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
)

// Bounds of what is kept for clients that come back to a stream.
const (
	maxReplay      = 256       // events of one session
	maxReplayBytes = 256 << 10 // and their bytes
	// replayTime is how long an event is kept that was sent to a connected client. Unread
	// events are kept as long as the session.
	replayTime = 5 * time.Minute
)

// replay has the newest events that were sent on the streams of a session, newest last, for
// clients that come back to one. The mutex of the streams guards it.
type replay struct {
	held   *httpd.Budget
	events []replayEvent
	size   int
}

type replayEvent struct {
	stream, number uint64
	at             time.Time
	unread         bool // its client was disconnected
	event          []byte
}

// keep adds an event and drops the oldest, for which there is no room beside it; false
// means that the event itself is not kept.
func (p *replay) keep(e replayEvent) bool {
	if len(e.event) > maxReplayBytes || !p.held.TakeHalf(len(e.event)) {
		return false
	}
	p.events = append(p.events, e)
	p.size += len(e.event)
	drop := 0
	for ; len(p.events)-drop > maxReplay || p.size > maxReplayBytes; drop++ {
		p.give(len(p.events[drop].event))
		p.events[drop] = replayEvent{}
	}
	p.events = p.events[drop:]
	return true
}

func (p *replay) give(bytes int) {
	p.size -= bytes
	p.held.Give(bytes)
}

// after returns what the stream carried after the event of that number. known means that
// some of the stream is kept.
func (p *replay) after(stream, number uint64) (events []replayEvent, known bool) {
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

// setUnread records whether the client of the stream has read its events.
func (p *replay) setUnread(stream uint64, unread bool) {
	for i := range p.events {
		if p.events[i].stream == stream {
			p.events[i].unread = unread
		}
	}
}

// trim drops events that were read before the time.
func (p *replay) trim(before time.Time) {
	if len(p.events) == 0 {
		return
	}
	p.events = slices.DeleteFunc(p.events, func(e replayEvent) bool {
		old := !e.unread && e.at.Before(before)
		if old {
			p.give(len(e.event))
		}
		return old
	})
	if len(p.events) == 0 {
		p.events = nil
	}
}

func (p *replay) clear() {
	p.give(p.size)
	p.events = nil
}
