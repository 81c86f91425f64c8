package httpd

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Reply is the HTTP response to one POST with requests. It is undecided at first: when the
// responses are the first messages, they are plain JSON; when another message comes before
// them, or nothing for so long that a proxy could close the connection, it becomes an event
// stream that ends with them (MCP 2025-11-25, basic/transports, Sending Messages).
type Reply struct {
	core *Core
	post *Post
	// Announce returns the id of a session that begins with this reply; nil for none.
	Announce func() string
	// Channels makes an event stream of this reply one that a client can come back to; nil
	// for none.
	Channels Channels
	timer    *time.Timer

	mu      sync.Mutex
	stream  *Stream // nil while undecided
	channel Channel // what stream carries, if it is resumable
	over    bool    // Finish was called
}

// Channels opens channels.
type Channels interface {
	// Open makes st a channel.
	Open(st *Stream) Channel
}

// Channel is a stream as its client sees it, which may continue in another HTTP response.
type Channel interface {
	// Send sends m to the client, or keeps it; limit is as for [Stream.Push].
	Send(m *mcp.Message, limit int) error
	// AwaitRoom is as [Stream.AwaitRoom].
	AwaitRoom(ctx context.Context) error
	// Left is called when st, which carried the channel, has ended; whole is as for
	// [Stream.Run].
	Left(st *Stream, whole bool)
	// Close ends the channel after what was sent.
	Close()
	// Lost is closed when the client has not come back in time. While it is open, the
	// client is connected or may come back.
	Lost() <-chan struct{}
}

// Init sets the reply to p. Its caller sets the exported fields, then calls Start.
func (p *Reply) Init(c *Core, post *Post) { p.core, p.post = c, post }

// NewReply makes the reply to p, as [Reply.Init].
func (c *Core) NewReply(p *Post) *Reply { return &Reply{core: c, post: p} }

// Start starts the timer after which the reply becomes an event stream.
func (p *Reply) Start() {
	if p.post.Events {
		p.timer = time.AfterFunc(p.core.Timing.Quiet, func() { p.open() })
	}
}

// open makes the reply an event stream; nil when that is not possible (any more).
func (p *Reply) open() *Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !p.post.Events {
		return nil
	}
	if p.stream == nil {
		if p.Announce != nil {
			p.post.W.Header().Set(mcp.HeaderSessionID, p.Announce())
		}
		p.stream = p.core.NewStream(p.post.W)
		// The client cannot come back to a session whose id it is yet to receive.
		if p.Channels != nil && p.Announce == nil {
			p.channel = p.Channels.Open(p.stream)
		}
		go p.run(p.stream, p.channel)
	}
	return p.stream
}

func (p *Reply) run(st *Stream, c Channel) {
	whole := st.Run(p.post.R.Context().Done(), nil, nil)
	if c != nil {
		c.Left(st, whole)
	}
}

// Send sends a notification or a request of the server before the responses. The error is
// [ErrStreamOver] when the client accepts no event stream, is gone, or the reply is over.
func (p *Reply) Send(m *mcp.Message) error {
	st := p.open()
	if st == nil {
		return ErrStreamOver
	}
	return p.put(st, m, MaxPending)
}

// IsStream reports whether the reply is an event stream.
func (p *Reply) IsStream() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream != nil
}

// AwaitRoom is as [Stream.AwaitRoom]. While the reply is no event stream, there is room.
func (p *Reply) AwaitRoom(ctx context.Context) error {
	p.mu.Lock()
	st, channel := p.stream, p.channel
	p.mu.Unlock()
	switch {
	case channel != nil:
		return channel.AwaitRoom(ctx)
	case st != nil:
		return st.AwaitRoom(ctx)
	}
	return nil
}

// SendEvents is Send for whole events.
func (p *Reply) SendEvents(events []byte) {
	if st := p.open(); st != nil {
		st.PushEvents(events)
	}
}

// Open makes the reply an event stream. It returns a channel that is closed when the client
// is gone; ok is false when there can be no stream (any more).
func (p *Reply) Open() (gone <-chan struct{}, ok bool) {
	if p.open() == nil {
		return nil, false
	}
	if p.channel != nil {
		return p.channel.Lost(), true
	}
	return p.post.R.Context().Done(), true
}

// put sends m on st or, when it is resumable, on the stream that has taken its place.
func (p *Reply) put(st *Stream, m *mcp.Message, limit int) error {
	if p.channel != nil {
		return p.channel.Send(m, limit)
	}
	return st.Push(m, limit)
}

// Finish sends the responses and returns when they have been written. status is that of a
// plain response. sent is false when the client is known to have received another response
// for one of them, that there was no room, or none.
func (p *Reply) Finish(status int, responses []*mcp.Message, batch bool) (sent bool) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.post.JSON && status == http.StatusOK { // a stream would hide any other
		p.open()
	}
	p.mu.Lock()
	p.over = true
	st := p.stream
	p.mu.Unlock()
	if st == nil {
		reserved, sent := p.reserve(responses)
		defer reserved.Release()
		if p.Announce != nil && responses[0].Error == nil {
			p.post.W.Header().Set(mcp.HeaderSessionID, p.Announce())
		}
		p.core.WriteMessages(p.post.W, status, responses, batch)
		return sent
	}
	sent = true
	for _, m := range responses {
		// MCP 2025-03-26 allows a batch's responses one by one.
		err := p.core.AwaitRoom(p.post.R.Context().Done(), func() error { return p.put(st, m, MaxUnread) })
		sent = sent && err == nil
		if errors.Is(err, ErrAnswerRoom) {
			err = p.put(st, &mcp.Message{ID: m.ID, Error: ErrAnswerRoom}, MaxUnread)
		}
		if err != nil {
			p.core.Log.Debug("response dropped", "reason", err)
		}
	}
	if p.channel != nil {
		p.channel.Close()
	} else {
		st.Finish()
	}
	<-st.done
	return sent
}

// reserve takes room for plain responses while they are written. Without it they become
// errors.
func (p *Reply) reserve(responses []*mcp.Message) (reserved *Reservation, ok bool) {
	size := 0
	for _, m := range responses {
		size += SizeOf(m)
	}
	err := p.core.AwaitRoom(p.post.R.Context().Done(), func() (err error) {
		if reserved, ok = p.core.Held.Reserve(size); !ok {
			err = ErrAnswerRoom
		}
		return err
	})
	if err != nil {
		for i, m := range responses {
			responses[i] = &mcp.Message{ID: m.ID, Error: ErrAnswerRoom}
		}
	}
	return reserved, ok
}
