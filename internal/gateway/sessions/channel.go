package sessions

import (
	"context"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// channel is a stream of a session as its client sees it: when the HTTP response that
// carries it ends early, another one continues it. It is an [httpd.Channel]. The mutex of
// its streams guards it.
type channel struct {
	streams *streams
	number  uint64 // 0: its events have no ids, and it cannot be continued
	last    uint64 // number of its newest event
	st      *httpd.Stream
	over    bool // nothing follows
	// begun is set when a client has received some of it, and so can come back.
	begun bool
	// lost is closed when the client has not come back in time. It may still come back.
	// Nil for a session's own.
	lost chan struct{}
	away *time.Timer
}

// Open implements [httpd.Channels]: it makes st a channel, for one POST.
func (s *streams) Open(st *httpd.Stream) httpd.Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &channel{streams: s, number: s.ids.nextStream(), st: st, lost: make(chan struct{})}
	if s.posts == nil {
		s.posts = map[uint64]*channel{}
	}
	s.posts[c.number] = c
	s.prime(c)
	return c
}

// Send implements [httpd.Channel].
func (c *channel) Send(m *mcp.Message, limit int) error { return c.streams.send(c, m, limit) }

// AwaitRoom implements [httpd.Channel].
func (c *channel) AwaitRoom(ctx context.Context) error { return c.streams.awaitRoom(ctx, c) }

// Close implements [httpd.Channel].
func (c *channel) Close() {
	s := c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	c.over = true
	delete(s.posts, c.number)
	if c.away != nil {
		c.away.Stop()
	}
	if c.st != nil {
		c.st.Finish()
	}
}

// Lost implements [httpd.Channel].
func (c *channel) Lost() <-chan struct{} {
	c.streams.mu.Lock()
	defer c.streams.mu.Unlock()
	return c.lost
}

// Left implements [httpd.Channel].
func (c *channel) Left(st *httpd.Stream, whole bool) { c.streams.left(c, st, whole) }

// left is called when st, which carried c, has ended. whole means that everything has been
// written.
func (s *streams) left(c *channel, st *httpd.Stream, whole bool) {
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.st != st {
		return // another one carries c
	}
	c.st = nil
	c.begun = c.begun || st.HasWritten()
	if c == &s.own {
		s.attached = make(chan struct{})
		return
	}
	if whole && c.over {
		return
	}
	s.replay.setUnread(c.number, c.begun)
	switch {
	case c.over:
	case !c.begun || s.over:
		c.giveUp()
	default:
		c.away = time.AfterFunc(s.core.Timing.ComeBack, func() {
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

// isOwn reports whether a client that comes back to the stream of that number gets the
// session's own.
func (s *streams) isOwn(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.replay.after(number, 0)
	return number == s.own.number || s.posts[number] == nil && !known
}

// carry makes st carry the session's own stream or, with resume, the stream of that number
// after the event.
func (s *streams) carry(st *httpd.Stream, resume bool, number, event uint64) (*channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errSessionOver
	}
	if resume {
		return s.resume(st, number, event), nil
	}
	s.attachOwn(st, nil, true)
	return &s.own, nil
}

// resume lets st continue the stream of that number after the event that the client
// received last, and returns the channel that st carries. When that is over, st ends after
// the remaining events. For an unknown stream it is the session's
// own. The caller holds mu.
func (s *streams) resume(st *httpd.Stream, number, event uint64) *channel {
	c := s.posts[number]
	if number == s.own.number {
		c = &s.own
	}
	events, known := s.replay.after(number, event)
	switch {
	case c == nil && !known, c != nil && event > c.last:
		s.core.Log.Debug("a client comes back to a stream that is no longer known")
		s.attachOwn(st, nil, true)
		return &s.own
	case c != nil && event+uint64(len(events)) < c.last:
		s.core.Log.Debug("events are missing for a client that comes back")
	}
	if c == &s.own {
		s.attachOwn(st, events, false)
		return c
	}
	for _, e := range events {
		st.PushEvents(e.event)
	}
	s.replay.setUnread(number, false)
	if c == nil {
		st.Finish()
		return &channel{streams: s, number: number, st: st, over: true, begun: true}
	}
	if c.away != nil {
		c.away.Stop()
	}
	select {
	case <-c.lost:
		c.lost = make(chan struct{})
	default:
	}
	if c.st != nil {
		c.st.Finish() // the client lost that one, which was not noticed yet
	}
	c.st, c.begun = st, true
	return c
}
