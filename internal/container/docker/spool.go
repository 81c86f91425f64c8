package docker

import (
	"fmt"
	"io"
	"sync"
)

// maxSpool bounds what is kept of a stream that is not read, in bytes.
const maxSpool = 1 << 20

// spool is a pipe whose writer never waits: past its bound the oldest bytes go,
// and their number is reported to the reader.
type spool struct {
	mu     sync.Mutex
	more   sync.Cond
	kept   []byte
	lost   int64
	err    error // set once no more comes
	closed bool  // nothing more is taken
}

func newSpool() *spool {
	s := &spool{}
	s.more.L = &s.mu
	return s
}

// Write keeps p for the reader. It never fails and never waits.
func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(p), nil
	}
	s.kept = append(s.kept, p...)
	// Letting it grow to twice the bound makes the moving of bytes rare.
	if len(s.kept) > 2*maxSpool {
		over := len(s.kept) - maxSpool
		s.lost += int64(over)
		s.kept = append(s.kept[:0], s.kept[over:]...)
	}
	s.more.Signal()
	return len(p), nil
}

// end marks the end of the stream; nil is a plain end.
func (s *spool) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		if err == nil {
			s.err = io.EOF
		}
	}
	s.more.Broadcast()
}

// Read waits for bytes.
func (s *spool) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.kept) == 0 && s.err == nil && !s.closed {
		s.more.Wait()
	}
	if s.lost > 0 {
		note := fmt.Sprintf("\n[%d bytes of standard error were not read in time and are lost]\n", s.lost)
		s.lost = 0
		s.kept = append([]byte(note), s.kept...)
	}
	if len(s.kept) == 0 {
		if s.err == nil {
			return 0, io.ErrClosedPipe
		}
		return 0, s.err
	}
	n := copy(p, s.kept)
	s.kept = s.kept[n:]
	return n, nil
}

// Close drops what comes from now on. What has come can still be read: it may be a
// server's last output, and the connection breaks the moment that was sent.
func (s *spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.more.Broadcast()
	return nil
}
