package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
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
	// exitTime bounds the wait for the exit status after the end of a process's output.
	exitTime = 2 * time.Second
)

// process is one process of a stdio server, during or after its handshake.
type process struct {
	backend *Pool
	server  guest.Process
	log     *slog.Logger
	shared  *sharedProcess // nil for a process of one session
	session exchange.Peer  // of that session; nil for a shared process

	info    json.RawMessage // the InitializeResult; set by the handshake
	version atomic.Pointer[mcp.Version]

	pending        *correlate.RequestTable
	serverRequests *correlate.ServerRequests
	outbox         chan []byte
	adjusting      chan struct{} // held during [process.adjust]
	last           atomic.Int64  // when the server sent its last message, or was started; Unix nanoseconds
	suspended      atomic.Bool   // requests fail: see liveness.go
	work           wire.Group
	farewells      wire.Group     // cancellations that are sent before the input is closed
	stateless      statelessState // of a process of the stateless era
	// complained: a response without an id has been logged.
	complained atomic.Bool
	spoke      atomic.Bool  // the server has sent a message
	stray      atomic.Bool  // the server has written a line that is no message
	logged     atomic.Int64 // lines that are no message

	once    sync.Once
	why     error         // set before closing is closed
	closing chan struct{} // the process is ending; nothing more is sent or received
	stopped chan struct{} // the process has exited, or could not be stopped
	exited  chan struct{} // the process has exited, and exit is set
	exit    error
	ended   chan struct{} // run has returned

	// Guarded by backend.mu. A session counts as a user, and so does each of its
	// requests: a session that moved away may still wait for a response here.
	users    int
	sessions map[*conn]struct{}
	lastUse  time.Time // when a session began or a request ended
	used     bool      // a request has ended
}

func newProcess(b *Pool, server guest.Process, session exchange.Peer, com *sharedProcess) *process {
	p := &process{
		backend: b, server: server, shared: com, session: session, log: b.cfg.Log,
		pending: correlate.NewRequestTable(com != nil), outbox: make(chan []byte), adjusting: make(chan struct{}, 1),
		closing: make(chan struct{}), stopped: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
		sessions: map[*conn]struct{}{},
	}
	p.last.Store(time.Now().UnixNano())
	p.pending.Stateless = p.isStateless()
	p.stateless.subscriptions = newSubscriptions(p)
	p.serverRequests = correlate.NewServerRequests(p.sendAnswer)
	return p
}

// admit adds c to p's sessions. The caller holds backend.mu and has checked that p is not
// over.
func (p *process) admit(c *conn) {
	p.sessions[c] = struct{}{}
	p.users++
	p.lastUse = time.Now()
}

// over reports whether p is ending or has ended; if so, p.why is set.
func (p *process) over() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// run serves the process until it has exited.
func (p *process) run() {
	go func() {
		p.exit = p.server.Wait()
		close(p.exited)
	}()
	p.work.Go(p.write)
	p.work.Go(p.watch)
	p.fail(p.diagnose(p.read()))
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
	if !p.end(why) || p.isStateless() && !p.stateless.used.Load() {
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
		p.why = why
		close(p.closing)
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
	case <-p.closing:
		return p.why
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

// handshake initializes the server on behalf of client (MCP, Lifecycle,
// Initialization).
func (p *process) handshake(ctx context.Context, client *exchange.Client) error {
	init, err := wire.InitializeRequest(client)
	if err != nil {
		return err
	}
	f, out, err := p.pending.Add(&exchange.Exchange{Client: client, Request: init, Peer: p.session})
	if err != nil {
		return err
	}
	defer p.pending.Remove(f)
	if err := p.send(ctx, out); err != nil {
		return err
	}
	answer, err := f.Wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	version, err := wire.NegotiatedVersion("the server", answer)
	if err != nil {
		return err
	}
	p.version.Store(&version)
	p.info = answer.Result
	return p.send(ctx, wire.InitializedNotification())
}

// play sends the request of x and waits for the response. ctx ends when the client cancels
// or disconnects. sent reports whether the server may have received the request.
func (p *process) play(ctx context.Context, x *exchange.Exchange) (answer *mcp.Message, sent bool, err error) {
	line := wire.NewCallPeer(x.Peer)
	defer line.Detach()
	f, out, err := p.pending.Add(&exchange.Exchange{Client: x.Client, Request: x.Request, Peer: line})
	if err != nil {
		return nil, false, err
	}
	if err := p.send(ctx, out); err != nil {
		p.pending.Remove(f)
		return nil, false, err
	}
	answer, err = f.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		line.Detach()
		p.abandon(f)
		return nil, true, context.Cause(ctx)
	}
	return answer, true, err
}

// abandon sends the server the cancellation of f.
func (p *process) abandon(f *correlate.PendingRequest) {
	if !p.pending.Orphan(f) {
		return
	}
	p.farewells.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
		defer cancel()
		err := p.send(ctx, f.Cancelled())
		if err == nil {
			err = p.flush(ctx)
		}
		if err != nil && !p.over() {
			p.log.Warn("a cancellation did not reach the server", "method", f.Method, "error", err)
		}
	})
}

// handle dispatches a message of the server. It is called by the reader and must not
// block.
func (p *process) handle(m *mcp.Message) {
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
	if p.isStateless() {
		return nil, errNoQuestions
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
	case p.isStateless():
		p.notifyStateless(m)
	case m.Method == mcp.NotificationCancelled:
		p.serverRequests.Cancel(m)
	case p.pending.Notify(m):
	case p.shared == nil:
		p.session.Notify(m)
	default:
		p.notifySessions(m)
	}
}

// sendAnswer sends the response to a request of the server.
func (p *process) sendAnswer(ctx context.Context, m *mcp.Message) {
	if err := p.send(ctx, m); err != nil && !p.over() {
		p.log.Warn("a response did not reach the server", "id", m.ID.String(), "error", err)
	}
}
