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

// sharing is the key of a shared process: sessions, or exchanges of the stateless era, share
// a process if their keys are equal.
type sharing struct {
	wire.ClientKey
	// stateless marks a process of the stateless era; only Principal is set besides.
	stateless bool
	version   mcp.Version
}

// sharingOf returns the key under which a session of client shares a process. A client to
// which the server may send requests shares only with itself: with the sessions of the same
// [exchange.Client], OneProcess, and Info. mayShare is false for such a client of the
// session era. The error is an *mcp.Error for capabilities that two parsers could read
// differently.
func sharingOf(client *exchange.Client) (key sharing, mayShare bool, err error) {
	k, err := wire.KeyOf(client)
	if err != nil || k.AcceptsRequests() && !client.OneProcess {
		return sharing{}, false, err
	}
	return sharing{ClientKey: k, version: client.Version}, true, nil
}

// needsOwnProcess reports whether a request concerns state that the server keeps for its
// one client and that the gateway cannot divide: tasks (MCP 2025-11-25, Tasks: a request
// with params.task, and tasks/...). For log levels and subscriptions see [process.adjust].
func needsOwnProcess(m *mcp.Message) bool {
	if strings.HasPrefix(m.Method, "tasks/") {
		return true
	}
	_, task, err := mcp.Lookup(m.Params, "task")
	return task || err != nil // the server may be able to parse the params
}

// sharedProcess is a shared process, or the start of one for which sessions wait. All fields
// but ready are guarded by Pool.mu.
type sharedProcess struct {
	key     sharing
	waiters int
	// starting is the process from its start on, also before the handshake is complete.
	starting *process
	cancel   context.CancelFunc
	timer    *time.Timer
	idle     time.Time // when the last user left; zero while there are users

	ready   chan struct{} // closed when process or err is set
	process *process
	err     error
}

// joinAttempts bounds the attempts to join a process, which may end during each of them.
const joinAttempts = 3

// join returns the process that is shared under the key. If there is none, join starts one
// on behalf of client. admit registers the caller as a user of the process; it is called
// with Pool.mu held.
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

// enter registers the caller as a waiter for the process under key, whose start it begins
// if there is none. It returns nil when the pool is closed.
func (b *Pool) enter(key sharing, client *exchange.Client) *sharedProcess {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	com := b.shared[key]
	if com == nil {
		// Not the caller's context: later callers wait for the same start.
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

// settle ends the caller's wait: it returns the process, or the reason why there is none.
// again reports whether another attempt may succeed.
func (b *Pool) settle(ctx context.Context, com *sharedProcess, admit func(*process)) (p *process, again bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	com.waiters--
	if ctx.Err() != nil {
		if com.process != nil {
			b.rest(com.process)
		} else if com.waiters == 0 {
			com.cancel() // no waiter is left
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
		b.withdraw(com) // end may not have removed it yet
		return nil, true, com.process.why
	}
	admit(com.process)
	com.idle = time.Time{}
	return com.process, false, nil
}

// release removes one user of p. The caller must not hold mu.
func (b *Pool) release(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.users--
	p.lastUse, p.used = time.Now(), true
	if p.idle() {
		b.noteBusy(false)
	}
	b.rest(p)
}

// rest starts the linger time of a shared process without users. The caller holds mu.
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
		// A timer that was reset may still fire for the earlier time.
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
var errUnused = wire.ServerGone("the server's process was ended because no session used it")

// unused reports whether com's process has started and has no users. The caller holds mu.
func (b *Pool) unused(com *sharedProcess) bool {
	return com.process != nil && com.process.users == 0 && com.waiters == 0
}

// withdraw removes com from the sharing table, so that no session joins it. The caller
// holds mu.
func (b *Pool) withdraw(com *sharedProcess) {
	if b.shared[com.key] == com {
		delete(b.shared, com.key)
	}
}
