package gateway

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// stream sends messages as server-sent events over one HTTP response. Anybody
// may push; run alone writes, so that nobody waits for a slow client but run.
type stream struct {
	w      http.ResponseWriter
	pace   *pace
	memory *memory // of the gateway; all that waits is taken from it

	mu      sync.Mutex
	pending []byte
	ending  bool // nothing comes after pending
	broken  bool // the client cannot be reached
	written bool // something of what was pushed

	wake chan struct{} // holds one token when there is something to do
	done chan struct{} // closed when run has returned
}

// keptByStream is how large a buffer a stream keeps for what comes next. It has two,
// no budget counts them, and there are as many streams as idle clients.
const keptByStream = 2 << 10

// newStream makes a stream, which must be run, or broken off.
func (g *Gateway) newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, pace: &g.pace, memory: &g.outbound, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Why something could not be put on a stream.
var (
	errStreamOver = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client is not connected any more"}
	errSlowClient = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client does not read its stream"}
)

// push queues m. limit bounds the bytes that wait before it; a message of any
// size gets through to a client that reads.
func (s *stream) push(m *mcp.Message, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.broken {
		return errStreamOver
	}
	if len(s.pending) > limit {
		return errSlowClient
	}
	size, ok := s.reserve(m)
	if !ok {
		return errAnswerRoom
	}
	before := len(s.pending)
	s.pending = appendEvent(s.pending, m)
	s.memory.force(len(s.pending) - before - size)
	s.signal()
	return nil
}

// reserve takes room for m: it has it always as long as little waits, and
// otherwise in the gateway's budget. What it took is given back, or pushed. The
// caller holds mu.
func (s *stream) reserve(m *mcp.Message) (size int, ok bool) {
	size = sizeOf(m)
	if len(s.pending)+size <= smallSize {
		s.memory.force(size)
		return size, true
	}
	return size, s.memory.take(size)
}

// reserveFor is reserve for who does not push m itself.
func (s *stream) reserveFor(m *mcp.Message) (size int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserve(m)
}

// pushRaw queues whole events.
func (s *stream) pushRaw(events []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(events) > 0 && !s.ending && !s.broken {
		s.pending = append(s.pending, events...)
		s.memory.force(len(events))
		s.signal()
	}
}

// finish lets run end when all that was pushed has been written.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run writes until the stream is finished or the client is gone. When lost is closed,
// which a nil one never is, the stream is finished as soon as settle has returned.
// whole: all that was pushed has been written.
func (s *stream) run(gone, lost <-chan struct{}, settle func()) (whole bool) {
	defer close(s.done)
	defer s.breakOff()
	control := http.NewResponseController(s.w)
	h := s.w.Header()
	h.Set("Content-Type", mcp.TypeEventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	h.Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return false
	}
	beat := time.NewTicker(s.pace.keepAlive)
	defer beat.Stop()
	var spare []byte
	for {
		b, last := s.swap(spare)
		if len(b) > 0 {
			ok := s.write(control, b)
			s.memory.give(len(b))
			if !ok {
				return false
			}
			s.note()
			beat.Reset(s.pace.keepAlive)
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
		case <-beat.C:
			if !s.write(control, mcp.AppendComment(nil, "keep-alive")) {
				return false
			}
		case <-gone:
			return false
		case <-lost:
			lost = nil
			go func() {
				settle()
				s.finish()
			}()
		}
	}
}

// swap takes what is pending and puts empty in its place. last means that
// nothing will follow.
func (s *stream) swap(empty []byte) (b []byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, s.pending = s.pending, empty
	return b, s.ending || s.broken
}

// note notes that the client has something of the stream.
func (s *stream) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
}

func (s *stream) hasWritten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func (s *stream) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// waiting is how many bytes have not been written yet.
func (s *stream) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// write sends b now. A client that does not read holds us up for a bounded
// time only.
func (s *stream) write(control *http.ResponseController, b []byte) bool {
	_ = control.SetWriteDeadline(time.Now().Add(s.pace.write)) // a test's writer has none
	if _, err := s.w.Write(b); err != nil {
		return false
	}
	return control.Flush() == nil
}

// breakOff gives the client up: what waits is not written any more.
func (s *stream) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.give(len(s.pending))
	s.broken, s.pending = true, nil
	s.signal()
}

const eventStart = "event: " + mcp.EventMessage + "\ndata: "

// messageOf reads an event of appendEvent.
func messageOf(event []byte) (*mcp.Message, error) {
	return mcp.Parse(bytes.TrimPrefix(event, []byte(eventStart)))
}

// appendEvent appends m as one event. [mcp.Message.Append] writes one line, so
// there is one data field.
func appendEvent(dst []byte, m *mcp.Message) []byte {
	dst = append(dst, eventStart...)
	dst = m.Append(dst)
	return append(dst, "\n\n"...)
}
