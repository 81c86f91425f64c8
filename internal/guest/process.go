package guest

import (
	"context"
	"io"
	"sync"
	"time"
)

// stopGrace is the time that a server has to end after its input was closed, and again
// after SIGTERM. It is short: the session has ended, so no client waits for what the
// server might finish.
const stopGrace = 1500 * time.Millisecond

// remoteProcess is the gateway's end of a process in the container.
type remoteProcess struct {
	line   *Line
	id     int64
	stdin  io.WriteCloser
	stdout io.Reader
	// outputEnd ends stdout after what the process has written.
	outputEnd func()

	ended chan struct{}
	err   error // of Wait; set before ended is closed

	drain sync.Once
}

func (p *remoteProcess) Stdin() io.WriteCloser { return p.stdin }

func (p *remoteProcess) Stdout() io.Reader { return p.stdout }

func (p *remoteProcess) Wait() error {
	<-p.ended
	return p.err
}

// Frozen is of [Process]. A request that fails for another reason than time reports
// nothing about the process.
func (p *remoteProcess) Frozen(ctx context.Context) bool {
	stream, resp, err := p.line.request(ctx, request{Op: opState, Process: p.id})
	if err != nil {
		return ctx.Err() != nil
	}
	stream.Close()
	return resp.Stopped
}

// watch waits for the end of the process.
func (p *remoteProcess) watch() {
	a := p.line.exchange(request{Op: opWait, Process: p.id})
	p.err = a.err
	if a.err == nil {
		a.stream.Close()
		p.err = a.resp.exitError()
	}
	close(p.ended)
	// Its input has no reader any more. Its output can still be read.
	p.closeStdin()
	p.outputEnd()
}

func (p *remoteProcess) closeStdin() {
	p.stdin.Close()
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	delete(p.line.inputs, p.stdin)
}

func (p *remoteProcess) Stop(ctx context.Context) error {
	p.closeStdin()
	// Without a reader, neither the guest nor the process could finish a write.
	p.drain.Do(func() { go io.Copy(io.Discard, p.stdout) })
	p.kill(stopGrace)
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	}
	p.kill(0)
	// SIGKILL takes effect at once, unless the machine or the line hangs.
	select {
	case <-p.ended:
		return nil
	case <-time.After(5 * time.Second):
		return context.Cause(ctx)
	}
}

// kill requests the end of the process and does not wait for it: p.ended is closed when
// the process has ended.
func (p *remoteProcess) kill(grace time.Duration) {
	select {
	case <-p.ended:
		return
	default:
	}
	go func() {
		a := p.line.exchange(request{Op: opKill, Process: p.id, GraceMillis: grace.Milliseconds()})
		if a.stream != nil {
			a.stream.Close()
		}
	}()
}
