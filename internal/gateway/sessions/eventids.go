package sessions

import (
	"strconv"
	"time"
)

// eventIDs makes the ids of a session's events. The mutex of the streams guards it.
type eventIDs struct {
	tag  string // derived from the session's id
	last uint64 // number of the newest stream
}

// nextStream numbers the streams of a session, from the current time on: numbers from
// before a restart are not used again.
func (e *eventIDs) nextStream() uint64 {
	if e.last == 0 {
		e.last = uint64(time.Now().UnixMicro())
	}
	e.last++
	return e.last
}

// format returns an id that is unique among the session's events.
func (e *eventIDs) format(stream, number uint64) string {
	return e.tag + "-" + strconv.FormatUint(stream, 36) + "-" + strconv.FormatUint(number, 10)
}
