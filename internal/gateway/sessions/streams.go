package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// streams are the event streams of one session: its own, for messages that belong to no
// call, and those of POSTs that are in flight.
//
// When the session is resumable, the events have ids and the newest are kept, so that a
// client which lost a stream comes back to it with Last-Event-ID (MCP 2025-11-25,
// basic/transports, Resumability and Redelivery; 2025-03-26 and 2025-06-18 have it too).
type streams struct {
	core    *httpd.Core
	dropped httpd.Drops
	touch   func() // records activity of the client; not called with mu held

	mu        sync.Mutex
	over      bool
	shared    bool // of a shared session: notifications have no receiver
	resumable bool
	version   mcp.Version
	// own carries what belongs to no call. While no response carries it, attached is open
	// and notifications wait in the backlog.
	own      channel
	attached chan struct{}
	backlog  httpd.Backlog
	posts    map[uint64]*channel // of POSTs that are not answered yet
	replay   replay
	ids      eventIDs
}

func (s *streams) init(core *httpd.Core, touch func()) {
	s.core, s.touch = core, touch
	s.attached = make(chan struct{})
	s.backlog = httpd.NewBacklog(&core.Held)
	s.replay.held = &core.Held
}

// identify sets the session's id.
func (s *streams) identify(id string) {
	sum := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids.tag = hex.EncodeToString(sum[:6])
}

// agree sets the version of the session.
func (s *streams) agree(v mcp.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = v
}

// parseEventID reads an id of eventIDs.format for this session.
func (s *streams) parseEventID(id string) (stream, number uint64, err error) {
	_, rest, _ := strings.Cut(id, "-")
	first, second, _ := strings.Cut(rest, "-")
	stream, streamErr := strconv.ParseUint(first, 36, 64)
	number, numberErr := strconv.ParseUint(second, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if streamErr != nil || numberErr != nil || s.ids.format(stream, number) != id {
		return 0, 0, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: fmt.Sprintf("the %s header is not the id of an event of this session", mcp.HeaderLastEventID)}
	}
	return stream, number, nil
}

// listens reports whether the client has opened the session's own stream. Otherwise
// attached is closed when it does.
func (s *streams) listens() (listens bool, attached <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.st != nil, s.attached
}

// sendOwn sends what can be dropped on the session's own stream.
func (s *streams) sendOwn(m *mcp.Message) error { return s.send(&s.own, m, httpd.MaxPending) }

// pushOwn puts a response on the session's own stream, which is not resumable.
func (s *streams) pushOwn(m *mcp.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.st == nil {
		return httpd.ErrStreamOver
	}
	return s.own.st.Push(m, httpd.MaxUnread)
}

// send puts m on c and keeps it for a client that comes back. limit is as for
// [httpd.Stream.Push].
func (s *streams) send(c *channel, m *mcp.Message, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c == &s.own && c.st == nil && !s.over && !s.shared:
		s.dropped.Add(s.backlog.Keep(m))
		return nil
	case c.over || c.st == nil && (s.over || c.number == 0 || !c.begun):
		return httpd.ErrStreamOver
	case c.number == 0:
		return c.st.Push(m, limit)
	}
	if c.st != nil {
		release, ok := c.st.Reserve(m)
		if !ok {
			return httpd.ErrAnswerRoom
		}
		defer release() // it is pushed as events by then
	}
	var slow bool
	if c.st != nil && c.st.Waiting() > limit {
		if limit < httpd.MaxUnread {
			return httpd.ErrSlowClient
		}
		// A response is not dropped: the client receives it when it comes back.
		slow = true
		c.st.Break()
	}
	event, kept := s.remember(c, httpd.AppendEvent(nil, m))
	if !kept && m.Kind() == mcp.Response && !s.over {
		// A client that comes back for it receives an error.
		sorry := mcp.NewError(m.ID, mcp.CodeServerGone, "the client was disconnected when the response came, which is too large to be kept for it")
		c.last--
		s.remember(c, httpd.AppendEvent(nil, sorry))
	}
	if c.st != nil && !slow {
		c.st.PushEvents(event)
	}
	return nil
}

// awaitRoom waits until the client has read enough of c, see [httpd.Stream.AwaitRoom]. There
// is room on a channel without a response that carries it: events are kept for the client.
func (s *streams) awaitRoom(ctx context.Context, c *channel) error {
	s.mu.Lock()
	st := c.st
	s.mu.Unlock()
	if st == nil {
		return nil
	}
	return st.AwaitRoom(ctx)
}

// remember gives an event its id and keeps it, if there is room.
func (s *streams) remember(c *channel, event []byte) (withID []byte, kept bool) {
	c.last++
	event = append([]byte("id: "+s.ids.format(c.number, c.last)+"\n"), event...)
	if s.over {
		return event, false
	}
	return event, s.replay.keep(replayEvent{c.number, c.last, time.Now(), c.st == nil, event})
}

// attachOwn makes st the session's own stream and puts on it the events that the client
// missed, then what waited. A stream that was there before ends: a client that lost its
// connection comes back before that is noticed. prime is set when the client has no id yet
// to come back with. The caller holds mu.
func (s *streams) attachOwn(st *httpd.Stream, missed []replayEvent, prime bool) {
	before := s.own.st
	s.own.st = st
	if s.resumable && s.own.number == 0 {
		s.own.number = s.ids.nextStream()
	}
	if prime {
		s.prime(&s.own)
	}
	for _, e := range missed {
		st.PushEvents(e.event)
	}
	for _, event := range s.backlog.Take() {
		if s.own.number != 0 {
			event, _ = s.remember(&s.own, event)
		}
		st.PushEvents(event)
	}
	if before == nil {
		close(s.attached)
	} else {
		before.Finish()
	}
}

// prime sends an id to come back with before there is an event, as versions since
// 2025-11-25 require, and the delay in milliseconds. SDKs of older versions fail on empty
// data.
func (s *streams) prime(c *channel) {
	if c.number != 0 && s.version >= mcp.V20251125 {
		c.st.PushEvents([]byte("id: " + s.ids.format(c.number, c.last) + "\nretry: 1000\ndata: \n\n"))
	}
}

// end drops what is kept and returns the session's own stream, for the caller to finish;
// nil for none.
func (s *streams) end() *httpd.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	own := s.own.st
	s.own.st = nil
	s.backlog.Clear()
	s.replay.clear()
	for _, c := range s.posts {
		if c.away != nil {
			c.away.Stop()
		}
	}
	s.dropped.Report(s.core.Log, "a session")
	return own
}

// trim drops events that were read before the time.
func (s *streams) trim(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replay.trim(before)
}
