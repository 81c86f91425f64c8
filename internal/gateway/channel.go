package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// channel is a stream of a session as its client sees it. The response that
// carries it may break off, and another one go on with it: its events have ids,
// and are in the session's past (MCP 2025-11-25, basic/transports, Resumability
// and Redelivery; 2025-03-26 and 2025-06-18 have it too). The session's mutex
// guards it.
type channel struct {
	number uint64 // 0: its events have no ids, and nobody comes back
	last   uint64 // number of its newest event
	st     *stream
	over   bool // nothing follows
	// begun: a client has received something of it, and so may come back.
	begun bool
	// lost is closed when the client has been away for so long that nobody should
	// wait for it, although it may still come back. Nil for a session's own.
	lost chan struct{}
	away *time.Timer
}

// openChannel makes st a channel of its own, for one POST.
func (s *session) openChannel(st *stream) *channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &channel{number: s.nextStream(), st: st, lost: make(chan struct{})}
	if s.posts == nil {
		s.posts = map[uint64]*channel{}
	}
	s.posts[c.number] = c
	s.prime(c)
	return c
}

// nextStream numbers the streams of a session, from the time on: numbers from
// before a restart do not come again.
func (s *session) nextStream() uint64 {
	if s.streams == 0 {
		s.streams = uint64(time.Now().UnixMicro())
	}
	s.streams++
	return s.streams
}

// prime tells the client an id to come back with before there is an event, as
// versions since 2025-11-25 want, and after how many milliseconds. SDKs of older
// versions choke on empty data.
func (s *session) prime(c *channel) {
	if c.number != 0 && s.version >= mcp.V20251125 {
		c.st.pushRaw([]byte("id: " + s.eventID(c.number, c.last) + "\nretry: 1000\ndata: \n\n"))
	}
}

// eventID is unique among the session's events, and says whose it is.
func (s *session) eventID(stream, number uint64) string {
	if s.tag == "" {
		sum := sha256.Sum256([]byte(s.id))
		s.tag = hex.EncodeToString(sum[:6])
	}
	return s.tag + "-" + strconv.FormatUint(stream, 36) + "-" + strconv.FormatUint(number, 10)
}

// parseEventID reads an id that eventID wrote for this session.
func (s *session) parseEventID(id string) (stream, number uint64, err error) {
	tag, rest, _ := strings.Cut(id, "-")
	first, second, _ := strings.Cut(rest, "-")
	stream, streamErr := strconv.ParseUint(first, 36, 64)
	number, numberErr := strconv.ParseUint(second, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if streamErr != nil || numberErr != nil || len(tag) != 12 || s.eventID(stream, number) != id {
		return 0, 0, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: fmt.Sprintf("the %s header is not the id of an event of this session", mcp.HeaderLastEventID)}
	}
	return stream, number, nil
}

// send puts m on c: to who reads it, and into the past for who comes back.
// limit is as for [stream.push].
func (s *session) send(c *channel, m *mcp.Message, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c == &s.own && c.st == nil && !s.over && !s.shared:
		s.backlog.keep(m)
		return nil
	case c.over || c.st == nil && (s.over || c.number == 0 || !c.begun):
		return errStreamOver
	case c.number == 0:
		return c.st.push(m, limit)
	}
	if c.st != nil {
		size, ok := c.st.reserveFor(m)
		if !ok {
			return errAnswerRoom
		}
		defer c.st.memory.give(size) // it is pushed as it is by then
	}
	var slow bool
	if c.st != nil && c.st.waiting() > limit {
		if limit < maxUnread {
			return errSlowClient
		}
		// A response is not dropped: the client gets it when it comes back.
		slow = true
		c.st.breakOff()
	}
	event := s.remember(c, appendEvent(nil, m))
	if m.Kind() == mcp.Response && len(s.past.events) == 0 && !s.over {
		// It had no room. Who comes back for it should not wait in vain.
		sorry := mcp.NewError(m.ID, mcp.CodeServerGone, "the client was away when the response came, which is too large to be kept for it")
		c.last--
		s.remember(c, appendEvent(nil, sorry))
	}
	if c.st != nil && !slow {
		c.st.pushRaw(event)
	}
	return nil
}

// sendOwn puts what can be dropped on the session's own stream.
func (s *session) sendOwn(m *mcp.Message) error { return s.send(&s.own, m, maxPending) }

// remember gives an event its id and keeps it.
func (s *session) remember(c *channel, event []byte) []byte {
	c.last++
	event = append([]byte("id: "+s.eventID(c.number, c.last)+"\n"), event...)
	if !s.over {
		s.past.keep(pastEvent{c.number, c.last, time.Now(), c.st == nil, event})
	}
	return event
}

// closeChannel ends c after what was sent on it.
func (s *session) closeChannel(c *channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.over = true
	delete(s.posts, c.number)
	if c.away != nil {
		c.away.Stop()
	}
	if c.st != nil {
		c.st.finish()
	}
}

// leaveChannel is called when st, which carried c, is done. whole: everything
// has been written.
func (s *session) leaveChannel(c *channel, st *stream, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = time.Now()
	if c.st != st {
		return // another goes on
	}
	c.st = nil
	if c == &s.own {
		s.attached = make(chan struct{})
	}
	c.begun = c.begun || st.hasWritten()
	if whole && c.over {
		return
	}
	if c == &s.own {
		return
	}
	s.past.mark(c.number, c.begun)
	switch {
	case c.over:
	case !c.begun || s.over:
		c.giveUp()
	default:
		c.away = time.AfterFunc(s.pace.comeBack, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if c.st == nil {
				c.giveUp()
			}
		})
	}
}

func (c *channel) giveUp() {
	select {
	case <-c.lost:
	default:
		close(c.lost)
	}
}

// gone is closed when the client of c is away for good, as far as one can know.
func (s *session) gone(c *channel) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.lost
}

// isOwn reports whether a client that comes back to the stream of that number
// gets the session's own.
func (s *session) isOwn(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.past.after(number, 0)
	return number == s.own.number || s.posts[number] == nil && !known
}

// comeBack makes st go on with the stream whose event the client received last,
// and returns the channel that it then carries. When that is over, st ends after
// what is left of it. One that is not known (any more) is the
// session's own, from now on.
func (s *session) comeBack(st *stream, number, event uint64) (*channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errSessionOver
	}
	c := s.posts[number]
	if number == s.own.number {
		c = &s.own
	}
	events, known := s.past.after(number, event)
	switch {
	case c == nil && !known, c != nil && event > c.last:
		s.log.Debug("a client comes back to a stream that is not known any more")
		s.attachOwn(st, nil, true)
		return &s.own, nil
	case c != nil && event+uint64(len(events)) < c.last:
		s.log.Debug("events are missing for a client that comes back")
	}
	if c == &s.own {
		s.attachOwn(st, events, false)
		return c, nil
	}
	for _, e := range events {
		st.pushRaw(e.event)
	}
	s.past.mark(number, false)
	if c == nil {
		st.finish()
		return &channel{number: number, st: st, over: true, begun: true}, nil
	}
	if c.away != nil {
		c.away.Stop()
	}
	select {
	case <-c.lost: // it is back after all
		c.lost = make(chan struct{})
	default:
	}
	if c.st != nil {
		c.st.finish() // it has lost that one and we did not notice
	}
	c.st, c.begun = st, true
	return c, nil
}
