package stdio

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// ErrNoProtocolOutput: a server's process has written to its standard output, but nothing
// that is a message, and has then been silent for too long.
var ErrNoProtocolOutput = wire.ServerGone("the server's process was ended because it writes to its standard output, but no JSON-RPC message, and did not answer")

// earlyOutput is a process's standard output. Until the first message it watches
// for a process that never comes to one: an HTTP server's log, a prompt, a
// usage text. Many good servers print a banner first, and some of them take
// long to start, so output alone is no sign, nor is silence alone; the two
// together are, and every further byte of output starts the wait anew.
type earlyOutput struct {
	r       io.Reader
	limit   time.Duration
	giveUp  func(rest []byte)
	settled atomic.Bool
	message atomic.Bool // there was one

	mu    sync.Mutex
	timer *time.Timer // nil before anything was written
	rest  []byte      // of a line without an end so far, as much as is shown
}

// newEarlyOutput calls giveUp at most once, with the line that has no end.
func newEarlyOutput(r io.Reader, limit time.Duration, giveUp func(rest []byte)) *earlyOutput {
	return &earlyOutput{r: r, limit: limit, giveUp: giveUp}
}

func (e *earlyOutput) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	if n > 0 && !e.settled.Load() {
		e.note(b[:n])
	}
	return n, err
}

func (e *earlyOutput) note(b []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		e.rest = append(e.rest[:0], b[i+1:]...)
	} else {
		e.rest = append(e.rest, b...)
	}
	e.rest = e.rest[:min(len(e.rest), maxStray)]
	switch {
	case e.settled.Load():
	case e.timer != nil:
		e.timer.Reset(e.limit)
	case len(bytes.TrimSpace(b)) > 0:
		e.timer = time.AfterFunc(e.limit, e.expire)
	}
}

func (e *earlyOutput) expire() {
	if e.settled.Swap(true) {
		return
	}
	e.mu.Lock()
	rest := bytes.Clone(e.rest)
	e.mu.Unlock()
	e.giveUp(rest)
}

// settle ends the watch: there was a message, or there will be none.
func (e *earlyOutput) settle() {
	if e.settled.Swap(true) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// heard ends the watch because there was a message.
func (e *earlyOutput) heard() {
	e.message.Store(true)
	e.settle()
}

// spoke reports whether there was a message.
func (e *earlyOutput) spoke() bool { return e.message.Load() }

// giveUp ends a process that babbles.
func (p *process) giveUp(rest []byte) {
	p.showStray(rest)
	p.fail(ErrNoProtocolOutput)
}
