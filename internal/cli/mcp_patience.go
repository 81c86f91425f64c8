package cli

import (
	"context"
	"sync"
	"time"
)

// patience is how long a command waits for a server. The time in which the server
// waits for the person does not count.
type patience struct {
	mu    sync.Mutex
	timer *time.Timer
	left  time.Duration
	since time.Time
}

// withPatience ends the context with cause when the server took longer than limit.
func withPatience(ctx context.Context, limit time.Duration, cause error) (context.Context, *patience, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{left: limit, since: time.Now(), timer: time.AfterFunc(limit, func() { cancel(cause) })}
	return ctx, p, func() {
		p.timer.Stop()
		cancel(nil)
	}
}

func (p *patience) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	p.left -= time.Since(p.since)
}

func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	p.timer.Reset(max(p.left, 0))
}
