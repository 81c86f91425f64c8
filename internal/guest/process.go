package guest

import (
	"context"
	"io"
	"sync"
	"time"
)

// stopGrace is what a server gets to end after its input was closed, and again
// after SIGTERM. Short: a session that ended should leave nothing behind, and a
// server that has lost its input has nobody to finish anything for.
const stopGrace = 1500 * time.Millisecond

// remoteProcess is the gateway's end of a process in the container.
type remoteProcess struct {
	line   *Line
	id     int64
	stdin  io.WriteCloser
	stdout io.Reader
	// outputEnd says that the process has ended to who reads what it wrote.
	outputEnd func()

	ended chan struct{}
	how   error // set before ended is closed

	drain sync.Once
}

func (p *remoteProcess) Stdin() io.WriteCloser { return p.stdin }

func (p *remoteProcess) Stdout() io.Reader { return p.stdout }

func (p *remoteProcess) Wait() error {
	<-p.ended
	return p.how
}

// watch asks how the process ended.
func (p *remoteProcess) watch() {
	a := p.line.exchange(request{Op: opWait, Process: p.id})
	p.how = a.err
	if a.err == nil {
		a.stream.Close()
		p.how = a.resp.how()
	}
	close(p.ended)
	// Nothing reads its input any more. What it wrote can still be read.
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
	// Neither the guest nor the process could finish a write that nobody reads.
	p.drain.Do(func() { go io.Copy(io.Discard, p.stdout) })
	p.kill(stopGrace)
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	}
	p.kill(0)
	// SIGKILL takes no time, unless the machine or the line hangs.
	select {
	case <-p.ended:
		return nil
	case <-time.After(5 * time.Second):
		return context.Cause(ctx)
	}
}

// kill asks the guest to end the process; that it has ended shows in p.ended.
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
