package stdio

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sharing is what sessions, or exchanges of the stateless era, must have in
// common to share a process.
type sharing struct {
	principal string
	// stateless is a process of the stateless era; then only the principal counts.
	stateless    bool
	version      mcp.Version
	capabilities string // canonical JSON
}

// sharingOf says whether a session of client may share a process, and with
// whom: clients of the same principal that declared the same version and
// capabilities, none of which lets the server ask, since whom would a shared process
// ask? Their names may differ; the server is told the first one's. The error is an
// *mcp.Error for capabilities that two readers could read differently.
func sharingOf(client *exchange.Client) (key sharing, mayShare bool, err error) {
	if asked, err := wire.AcceptsRequests(client); err != nil || asked {
		return sharing{}, false, err
	}
	capabilities, err := mcp.Canonical(client.Capabilities)
	if err != nil {
		return sharing{}, false, err
	}
	return sharing{principal: client.Principal, version: client.Version, capabilities: string(capabilities)}, true, nil
}

// needsOwnProcess reports whether a request changes what the server keeps for
// its one client, or asks for that: a log level, subscriptions, tasks (MCP
// 2025-11-25, Tasks: a request with params.task, and tasks/...).
func needsOwnProcess(m *mcp.Message) bool {
	switch m.Method {
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return true
	}
	if strings.HasPrefix(m.Method, "tasks/") {
		return true
	}
	_, task, err := mcp.Lookup(m.Params, "task")
	return task || err != nil // the server may read what we cannot
}

// sharedProcess is a shared process, or the start of one that sessions wait for. All
// but ready is guarded by the backend's mu.
type sharedProcess struct {
	key     sharing
	waiters int
	// starting is the process before it has answered the handshake; nil before it runs.
	starting *process
	cancel   context.CancelFunc
	timer    *time.Timer
	idle     time.Time // since when nobody uses it; zero when somebody does

	ready   chan struct{} // closed when process or err is set
	process *process
	err     error
}

// joinAttempts bounds how often a session tries to join a process that ends at
// just that moment.
const joinAttempts = 3

// join returns the process that is shared under the key, which it starts on
// behalf of client if there is none. admit makes the caller a user of it; it is
// called while the backend's mu is held.
func (b *Pool) join(ctx context.Context, key sharing, client *exchange.Client, admit func(*process)) (*process, error) {
	var err error
	for range joinAttempts {
		com := b.enter(key, client)
		if com == nil {
			return nil, wire.ErrStopped
		}
		select {
		case <-com.ready:
		case <-ctx.Done():
		}
		p, again, joinErr := b.settle(ctx, com, admit)
		if !again {
			return p, joinErr
		}
		err = joinErr
	}
	return nil, err
}

// enter makes the caller one of those who wait for a process; nil when the
// backend is closed.
func (b *Pool) enter(key sharing, client *exchange.Client) *sharedProcess {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	com := b.shared[key]
	if com == nil {
		// Not the caller's context: others may come to wait for the same start.
		ctx, cancel := context.WithCancel(b.ctx)
		com = &sharedProcess{key: key, cancel: cancel, ready: make(chan struct{})}
		if !b.work.Go(func() { b.startShared(ctx, com, client) }) {
			cancel()
			return nil
		}
		b.shared[key] = com
	}
	com.waiters++
	return com
}

func (b *Pool) startShared(ctx context.Context, com *sharedProcess, client *exchange.Client) {
	defer com.cancel()
	p, err := b.start(ctx, client, nil, com)
	b.mu.Lock()
	defer b.mu.Unlock()
	com.process, com.err = p, err
	if err != nil || p.over() {
		b.withdraw(com)
	}
	close(com.ready)
	if p != nil {
		b.rest(p)
	}
}

// settle ends the caller's wait: with the process, or the reason why there is
// none. again says that another attempt may succeed.
func (b *Pool) settle(ctx context.Context, com *sharedProcess, admit func(*process)) (p *process, again bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	com.waiters--
	if ctx.Err() != nil {
		if com.process != nil {
			b.rest(com.process)
		} else if com.waiters == 0 {
			com.cancel() // nobody is left who wants it
			b.withdraw(com)
		}
		if com.process == nil && com.starting != nil && com.starting.strayOnly() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, false, ErrNoProtocolOutput
		}
		return nil, false, context.Cause(ctx)
	}
	if com.err != nil {
		return nil, false, com.err
	}
	if com.process.over() {
		b.withdraw(com) // its end may not have come to that yet
		return nil, true, com.process.why
	}
	admit(com.process)
	com.idle = time.Time{}
	return com.process, false, nil
}

// release takes one user off p. The caller must not hold mu.
func (b *Pool) release(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.users--
	b.rest(p)
}

// rest lets a shared process that nobody uses end soon. The caller holds mu.
func (b *Pool) rest(p *process) {
	com := p.shared
	if com == nil || p.users > 0 || com.waiters > 0 || b.closed {
		return
	}
	linger := b.cfg.Linger
	if com.key.stateless {
		linger = b.cfg.StatelessLinger
	}
	if com.idle = time.Now(); com.timer != nil {
		com.timer.Reset(linger)
		return
	}
	com.timer = time.AfterFunc(linger, func() {
		b.mu.Lock()
		// A timer that was set again may fire for the time before.
		unused := b.unused(com) && time.Since(com.idle) >= linger
		if unused {
			b.withdraw(com)
		}
		b.mu.Unlock()
		if unused {
			p.end(errUnused)
		}
	})
}

// errUnused ends a process that has lingered for long enough.
var errUnused = wire.ServerGone("the server's process was ended because nobody used it")

// unused: com's process has started and lingers. The caller holds mu.
func (b *Pool) unused(com *sharedProcess) bool {
	return com.process != nil && com.process.users == 0 && com.waiters == 0
}

// withdraw lets nobody join com any more. The caller holds mu.
func (b *Pool) withdraw(com *sharedProcess) {
	if b.shared[com.key] == com {
		delete(b.shared, com.key)
	}
}

// evict ends the process that has lingered the longest, if there is one, for
// somebody who waits for a place.
func (b *Pool) evict() {
	b.mu.Lock()
	var oldest *sharedProcess
	for _, com := range b.shared {
		if b.unused(com) && (oldest == nil || com.idle.Before(oldest.idle)) {
			oldest = com
		}
	}
	if oldest != nil {
		b.withdraw(oldest)
	}
	b.mu.Unlock()
	if oldest != nil {
		oldest.process.end(errUnused)
	}
}
