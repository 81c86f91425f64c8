package httpd

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds of the bytes that wait on one stream.
const (
	MaxPending = 4 << 20  // beyond, notifications and requests of the server are dropped
	MaxUnread  = 32 << 20 // beyond, the client is given up
)

// Stream sends messages as server-sent events in one HTTP response. Any goroutine may push;
// only Run writes, so only Run waits for a slow client.
type Stream struct {
	w      http.ResponseWriter
	timing *Timing
	held   *Budget // all that waits is taken from it

	mu      sync.Mutex
	pending []byte
	ending  bool // nothing follows pending
	broken  bool // the client cannot be reached
	written bool // some of what was pushed
	// room is closed when pending becomes shorter; nil when no AwaitRoom waits.
	room chan struct{}

	wake chan struct{} // holds one token when there is something to do
	done chan struct{} // closed when Run has returned
}

// keptByStream is the size of the buffer that a stream keeps for its next events. It has
// two, which are not counted in a budget: there is a stream for each idle client.
const keptByStream = 2 << 10

// NewStream makes a stream. Its owner calls Run, or Break.
func (c *Core) NewStream(w http.ResponseWriter) *Stream {
	return &Stream{w: w, timing: &c.Timing, held: &c.Held, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Errors of a stream that does not carry a message.
var (
	ErrStreamOver = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client is no longer connected"}
	ErrSlowClient = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client does not read its stream"}
)

// Push queues m. limit bounds the bytes that wait before it; a message of any size reaches
// a client that reads.
func (s *Stream) Push(m *mcp.Message, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.broken {
		return ErrStreamOver
	}
	if len(s.pending) > limit {
		return ErrSlowClient
	}
	size, ok := s.take(m)
	if !ok {
		return ErrAnswerRoom
	}
	before := len(s.pending)
	s.pending = AppendEvent(s.pending, m)
	s.held.Force(len(s.pending) - before - size)
	s.signal()
	return nil
}

// take takes room for m: always as long as little waits, otherwise within the budget. The
// caller holds mu.
func (s *Stream) take(m *mcp.Message) (size int, ok bool) {
	size = SizeOf(m)
	if len(s.pending)+size <= SmallSize {
		s.held.Force(size)
		return size, true
	}
	return size, s.held.Take(size)
}

// Reserve takes room for m until release, for a caller that pushes it by PushEvents.
func (s *Stream) Reserve(m *mcp.Message) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok := s.take(m)
	if !ok {
		return nil, false
	}
	return func() { s.held.Give(size) }, true
}

// PushEvents queues whole events.
func (s *Stream) PushEvents(events []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(events) > 0 && !s.ending && !s.broken {
		s.pending = append(s.pending, events...)
		s.held.Force(len(events))
		s.signal()
	}
}

// AwaitRoom returns nil when a notification would not be dropped because of [MaxPending], or
// when nothing can be pushed any more. If ctx ends before that, it returns its cause.
func (s *Stream) AwaitRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.pending) <= MaxPending || s.ending || s.broken {
			s.mu.Unlock()
			return nil
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// signalRoom wakes the callers of AwaitRoom. The caller holds mu.
func (s *Stream) signalRoom() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// Finish lets Run return when all that was pushed has been written.
func (s *Stream) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.signalRoom()
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run writes until the stream is finished or the client is gone. When lost is closed,
// which may be nil, Run finishes the stream after settle has returned. whole means that
// all that was pushed has been written.
func (s *Stream) Run(gone, lost <-chan struct{}, settle func()) (whole bool) {
	defer close(s.done)
	defer s.Break()
	control := http.NewResponseController(s.w)
	h := s.w.Header()
	h.Set("Content-Type", mcp.TypeEventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
	h.Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return false
	}
	keepAlive := time.NewTicker(s.timing.KeepAlive)
	defer keepAlive.Stop()
	var spare []byte
	for {
		b, last := s.swap(spare)
		if len(b) > 0 {
			ok := s.write(control, b)
			s.held.Give(len(b))
			if !ok {
				return false
			}
			s.setWritten()
			keepAlive.Reset(s.timing.KeepAlive)
		}
		spare = b[:0]
		if cap(spare) > keptByStream {
			spare = nil
		}
		if last {
			return !s.isBroken()
		}
		select {
		case <-s.wake:
		case <-keepAlive.C:
			if !s.write(control, mcp.AppendComment(nil, "keep-alive")) {
				return false
			}
		case <-gone:
			return false
		case <-lost:
			lost = nil
			go func() {
				settle()
				s.Finish()
			}()
		}
	}
}

// swap takes what is pending and puts empty in its place. After last nothing follows.
func (s *Stream) swap(empty []byte) (b []byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, s.pending = s.pending, empty
	s.signalRoom()
	return b, s.ending || s.broken
}

func (s *Stream) setWritten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
}

// HasWritten reports whether some of what was pushed has been written.
func (s *Stream) HasWritten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func (s *Stream) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Waiting is the number of bytes that have not been written yet.
func (s *Stream) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// write sends b now, for as long as Timing.Write.
func (s *Stream) write(control *http.ResponseController, b []byte) bool {
	_ = control.SetWriteDeadline(time.Now().Add(s.timing.Write)) // the writer of a test has none
	if _, err := s.w.Write(b); err != nil {
		return false
	}
	return control.Flush() == nil
}

// Break gives the client up: what waits is not written.
func (s *Stream) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Give(len(s.pending))
	s.broken, s.pending = true, nil
	s.signalRoom()
	s.signal()
}

const eventStart = "event: " + mcp.EventMessage + "\ndata: "

// messageOf reads an event of AppendEvent.
func messageOf(event []byte) (*mcp.Message, error) {
	return mcp.Parse(bytes.TrimPrefix(event, []byte(eventStart)))
}

// AppendEvent appends m as one event. [mcp.Message.Append] writes one line, so there is one
// data field.
func AppendEvent(dst []byte, m *mcp.Message) []byte {
	dst = append(dst, eventStart...)
	dst = m.Append(dst)
	return append(dst, "\n\n"...)
}
