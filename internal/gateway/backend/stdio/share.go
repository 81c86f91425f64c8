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
// with params.task, and tasks/...). For log levels and subscriptions see [preferences].
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
	pool    *Pool
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
		shared := b.enter(key, client)
		if shared == nil {
			return nil, wire.ErrStopped
		}
		select {
		case <-shared.ready:
		case <-ctx.Done():
		}
		p, again, joinErr := shared.leaveQueue(ctx, admit)
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
	shared := b.shared[key]
	if shared == nil {
		// Not the caller's context: later callers wait for the same start.
		ctx, cancel := context.WithCancel(b.ctx)
		shared = &sharedProcess{pool: b, key: key, cancel: cancel, ready: make(chan struct{})}
		if !b.work.Go(func() { shared.start(ctx, client) }) {
			cancel()
			return nil
		}
		b.shared[key] = shared
	}
	shared.waiters++
	return shared
}

// release removes one user of p. The caller must not hold mu.
func (b *Pool) release(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.use.end()
	if p.idle() {
		b.slots.setBusy(false)
	}
	if p.shared != nil {
		p.shared.rest()
	}
}

// start starts the process, and ends the wait of the callers.
func (s *sharedProcess) start(ctx context.Context, client *exchange.Client) {
	defer s.cancel()
	p, err := s.pool.start(ctx, client, nil, s)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.process, s.err = p, err
	if err != nil || p.over() {
		s.withdraw()
	}
	close(s.ready)
	if p != nil {
		s.rest()
	}
}

// leaveQueue ends a caller's wait: it returns the process, or the reason why there is none.
// again reports whether another attempt may succeed.
func (s *sharedProcess) leaveQueue(ctx context.Context, admit func(*process)) (p *process, again bool, err error) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.waiters--
	if ctx.Err() != nil {
		if s.process != nil {
			s.rest()
		} else if s.waiters == 0 {
			s.cancel() // no waiter is left
			s.withdraw()
		}
		if s.process == nil && s.starting != nil && s.starting.reader.strayOnly() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, false, ErrNoProtocolOutput
		}
		return nil, false, context.Cause(ctx)
	}
	if s.err != nil {
		return nil, false, s.err
	}
	if s.process.over() {
		s.withdraw() // end may not have removed it yet
		return nil, true, s.process.why()
	}
	admit(s.process)
	s.idle = time.Time{}
	return s.process, false, nil
}

// rest starts the linger time if the process has no users. The caller holds Pool.mu.
func (s *sharedProcess) rest() {
	if s.process != nil && s.process.use.users > 0 || s.waiters > 0 || s.pool.closed {
		return
	}
	linger := s.pool.cfg.Linger
	if s.key.stateless {
		linger = s.pool.cfg.StatelessLinger
	}
	if s.idle = time.Now(); s.timer != nil {
		s.timer.Reset(linger)
		return
	}
	s.timer = time.AfterFunc(linger, func() {
		s.pool.mu.Lock()
		// A timer that was reset may still fire for the earlier time.
		unused := s.unused() && time.Since(s.idle) >= linger
		if unused {
			s.withdraw()
		}
		s.pool.mu.Unlock()
		if unused {
			s.process.end(errUnused)
		}
	})
}

// errUnused ends a process that has lingered for long enough.
var errUnused = wire.ServerGone("the server's process was ended because no session used it")

// unused reports whether the process has started and has no users. The caller holds Pool.mu.
func (s *sharedProcess) unused() bool {
	return s.process != nil && s.process.use.users == 0 && s.waiters == 0
}

// withdraw removes s from the sharing table, so that no session joins it. The caller holds
// Pool.mu.
func (s *sharedProcess) withdraw() {
	if s.pool.shared[s.key] == s {
		delete(s.pool.shared, s.key)
	}
}
