package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// stopTime bounds the stop of a process: its grace period, SIGTERM and SIGKILL.
	stopTime = 10 * time.Second
	// exitTime bounds the wait for the exit status after the end of a process's output. On a
	// busy machine the status has arrived more than 2 s later.
	exitTime = 5 * time.Second
)

// process is one process of a stdio server, during or after its handshake.
type process struct {
	*requests
	backend *Pool
	server  guest.Process
	shared  *sharedProcess // nil for a process of one session
	session exchange.Peer  // of that session; nil for a shared process

	info    json.RawMessage // the InitializeResult; set by the handshake
	version atomic.Pointer[mcp.Version]

	reader         *reader
	liveness       *liveness
	pacer          *pacer
	serverRequests *correlate.ServerRequests
	// preferences is nil unless sessions share the process, stateless unless it is used in
	// the stateless era.
	preferences *preferences
	stateless   *statelessProcess
	work        wire.Group
	// complained: a response without an id has been logged.
	complained atomic.Bool

	cancelProcess context.CancelCauseFunc // ends lifetime: nothing more is sent or received
	closing       atomic.Bool             // its session ends, and end follows
	once          sync.Once
	stopped       chan struct{} // the process has exited, or could not be stopped
	exited        chan struct{} // the process has exited, and exit is set
	exit          error
	ended         chan struct{} // run has returned

	use usage
}

// newProcess returns the process for server, which has been started. shared is nil for a
// process of one session, whose Peer is session.
func newProcess(b *Pool, server guest.Process, session exchange.Peer, shared *sharedProcess) *process {
	ctx, cancel := context.WithCancelCause(context.Background())
	stateless := shared != nil && shared.key.stateless
	p := &process{
		requests: &requests{writer: newWriter(ctx), pending: correlate.NewRequestTable(shared != nil), log: b.cfg.Log},
		backend:  b, server: server, shared: shared, cancelProcess: cancel, pacer: newPacer(ctx, b.cfg.RoomTime, shared != nil),
		stopped: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
		use: usage{sessions: map[*conn]struct{}{}},
	}
	p.pending.Stateless = stateless
	p.serverRequests = correlate.NewServerRequests(p.sendAnswer)
	switch {
	case stateless:
		p.stateless = newStatelessProcess(p.requests, &p.work, p.pacer)
	case shared != nil:
		p.preferences = newPreferences(p.requests, p.pacer)
	default:
		p.session = p.pacer.wrap(session, new(atomic.Bool))
	}
	p.reader = &reader{
		lifetime: ctx, diag: b.cfg.Stray, log: b.cfg.Log,
		handle: func(m *mcp.Message) {
			p.handle(m)
			p.pacer.wait()
		},
		unreadable: func(line []byte, err error) { p.pending.Unreadable(line, err, nil) },
		hasBatches: func() bool { v := p.version.Load(); return v != nil && *v == mcp.V20250326 },
	}
	p.liveness = &liveness{
		requests: p.requests, after: b.cfg.CheckAfter, ping: pingRequest(stateless), isFrozen: server.Frozen,
		blocked: func() bool {
			return p.version.Load() == nil && !stateless || p.serverRequests.Pending()
		},
		onSuspend: p.withdraw,
	}
	p.liveness.last.Store(time.Now().UnixNano())
	return p
}

// over reports whether p is ending or has ended.
func (p *process) over() bool { return p.lifetime.Err() != nil }

// why returns the reason of the end, nil before.
func (p *process) why() error { return context.Cause(p.lifetime) }

// run serves the process until it has exited.
func (p *process) run() {
	go func() {
		p.exit = p.server.Wait()
		close(p.exited)
	}()
	p.work.Go(func() {
		if err := p.writer.run(p.server.Stdin()); err != nil {
			p.fail(p.diagnose(err))
		}
	})
	p.work.Go(p.liveness.run)
	p.fail(p.diagnose(p.reader.run(p.server.Stdout())))
	<-p.stopped
	p.serverRequests.Close()
	p.work.Close()
	p.farewells.Close()
	p.backend.ended(p)
	close(p.ended)
}

// fail is end for a process that exited by itself or violated the protocol; it is logged.
// When all processes are gone because their container is, the owner logs that instead.
func (p *process) fail(why error) {
	if !p.end(why) || p.stateless != nil && !p.stateless.used.Load() {
		return
	}
	select {
	case <-p.exited:
		if errors.Is(p.exit, guest.ErrLineLost) {
			return
		}
	default:
	}
	p.log.Warn("a server process ended", "reason", why)
}

// end ends the process; the requests that wait for it fail with why. It does not wait. It
// reports whether the process was not ending already.
func (p *process) end(why error) (first bool) {
	p.once.Do(func() {
		first = true
		p.cancelProcess(why)
		p.backend.lost(p) // first: a client that receives the error may send the next request
		p.pending.Fail(why)
		p.serverRequests.Stop()
		go func() {
			defer close(p.stopped)
			ctx, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			if err := p.server.Stop(ctx); err != nil {
				p.log.Error("the server's process could not be stopped", "error", err)
				return
			}
			<-p.exited
		}()
	})
	return first
}

// diagnose returns the reason why a stream of the process ended: the exit status, if the
// process has exited.
func (p *process) diagnose(err error) error {
	var rpc *mcp.Error
	if errors.As(err, &rpc) {
		return err // it is the reason
	}
	timeout := time.NewTimer(exitTime)
	defer timeout.Stop()
	select {
	case <-p.exited:
	case <-p.lifetime.Done():
		return p.why()
	case <-timeout.C:
		return wire.ServerGone("the server's process was ended because it closed its output (%v)", err)
	}
	switch {
	case errors.Is(p.exit, guest.ErrLineLost):
		return wire.ServerGone("the server is gone: %v", p.exit)
	case p.exit != nil:
		return wire.ServerGone("the server's process ended: %v", p.exit)
	default:
		return wire.ServerGone("the server's process ended: exit status 0")
	}
}

// handle dispatches a message of the server. It does not block.
func (p *process) handle(m *mcp.Message) {
	p.liveness.received()
	if p.over() {
		return
	}
	switch m.Kind() {
	case mcp.Response:
		switch {
		case p.pending.Deliver(m):
		case wire.IsUnidentified(m) && !p.complained.Swap(true):
			p.log.Warn("the server sent an error without a request id", "error", wire.Printable(m.Error.Message), "code", m.Error.Code)
		default:
			p.log.Debug("a response of the server matches no pending request", "id", m.ID.String())
		}
	case mcp.Request:
		if err := p.serverRequests.Start(m, p.ask); err != nil {
			p.fail(err)
		}
	case mcp.Notification:
		p.notify(m)
	}
}

func (p *process) ask(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	if p.stateless != nil {
		return nil, errNoServerRequests
	}
	if p.shared != nil && !p.shared.key.AcceptsRequests() {
		return nil, wire.NotDeclared(q)
	}
	if p.shared != nil {
		return p.pending.SendToNewestCall(ctx, q)
	}
	return p.pending.SendServerRequest(ctx, q, p.session)
}

func (p *process) notify(m *mcp.Message) {
	switch {
	case p.stateless != nil:
		p.stateless.notify(m)
	case m.Method == mcp.NotificationCancelled:
		p.serverRequests.Cancel(m)
	case p.pending.Notify(m):
	case p.preferences != nil:
		p.preferences.notify(m)
	default:
		p.session.Notify(m)
	}
}

// admit adds the session c. The caller holds Pool.mu and has checked that p is not over.
func (p *process) admit(c *conn) {
	p.use.begin(c)
	if p.preferences != nil {
		c.preference = p.preferences.add(c)
	}
}

// dismiss removes the session c.
func (p *process) dismiss(c *conn) {
	p.backend.mu.Lock()
	delete(p.use.sessions, c)
	p.backend.mu.Unlock()
	if p.preferences != nil {
		p.preferences.remove(c.preference)
	}
	p.backend.release(p)
}

// withdraw prevents further sessions from sharing the process.
func (p *process) withdraw() {
	if p.shared != nil {
		p.backend.mu.Lock()
		defer p.backend.mu.Unlock()
		p.shared.withdraw()
	}
}

// idle reports whether p has started and no request is in flight on it. The caller holds
// Pool.mu.
func (p *process) idle() bool {
	if s := p.shared; s != nil && (s.process == nil || s.waiters > 0) {
		return false
	}
	return p.use.quiet() && (p.shared != nil || p.use.users > 0)
}
