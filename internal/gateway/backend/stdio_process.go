package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// stopTime bounds the end of a process, which takes its own grace, SIGTERM
	// and SIGKILL.
	stopTime = 10 * time.Second
	// exitTime is how long a process whose output has ended may take to end
	// itself, so that we can say how it ended.
	exitTime = 2 * time.Second
	// maxAbandoned bounds the cancelled requests of a shared process whose
	// answers are still minded, and abandonTime for how long each is.
	maxAbandoned = 256
	abandonTime  = time.Minute
)

// stdioProcess is one process of a stdio server, after or in its handshake.
type stdioProcess struct {
	backend *stdio
	server  guest.Process
	log     *slog.Logger
	early   *earlyOutput
	common  *common       // nil for a process of one session
	session exchange.Peer // that session's, else nil

	info    json.RawMessage // the InitializeResult; set by the handshake
	version atomic.Pointer[mcp.Version]

	flights   *inflight
	asks      *questions
	outbox    chan []byte
	work      workers
	words     workers // what the server is still to be told before its input ends
	abandoned atomic.Int64
	modern    modernState // of a process of the stateless era
	// complained: it has been said that the server answers without an id.
	complained atomic.Bool

	once    sync.Once
	why     error         // set before closing is closed
	closing chan struct{} // nothing is sent or received any more
	stopped chan struct{} // the process has ended
	exited  chan struct{} // ... and exit says how
	exit    error
	ended   chan struct{} // nothing of it is left

	// Guarded by backend.mu. A session counts as a user, and so does each of its
	// requests: a session that moved away may still wait for an answer here.
	users    int
	sessions map[*stdioConn]struct{}
}

func newStdioProcess(b *stdio, server guest.Process, session exchange.Peer, com *common) *stdioProcess {
	p := &stdioProcess{
		backend: b, server: server, common: com, session: session, log: b.cfg.Log,
		flights: newInflight(com != nil), outbox: make(chan []byte),
		closing: make(chan struct{}), stopped: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
		sessions: map[*stdioConn]struct{}{},
	}
	p.flights.modern = p.isModern()
	p.modern.subscriptions = newSubscriptions(p)
	p.asks = newQuestions(p.sendAnswer)
	p.early = newEarlyOutput(server.Stdout(), b.cfg.Babble, p.giveUp)
	return p
}

// admit makes c one of p's sessions. The caller holds backend.mu and knows that
// p is not over.
func (p *stdioProcess) admit(c *stdioConn) {
	p.sessions[c] = struct{}{}
	p.users++
}

// over reports whether p is ending or has ended; why says why.
func (p *stdioProcess) over() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// run is the process's life.
func (p *stdioProcess) run() {
	go func() {
		p.exit = p.server.Wait()
		close(p.exited)
	}()
	p.work.start(p.write)
	p.fail(p.diagnose(p.read()))
	p.early.settle()
	<-p.stopped
	p.asks.close()
	p.work.wait()
	p.words.wait()
	p.backend.ended(p)
	close(p.ended)
}

// fail is end for a process that ended by itself, or did what is no way to go on; it
// is noted for whoever looks after the server. That all of them are gone because their
// container is, its owner notes.
func (p *stdioProcess) fail(why error) {
	if !p.end(why) || p.isModern() && !p.modern.used.Load() {
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

// end ends the process; why is what everybody who waits for it is told. It does
// not wait. It reports whether the process was not ending already.
func (p *stdioProcess) end(why error) (first bool) {
	p.once.Do(func() {
		first = true
		p.why = why
		close(p.closing)
		p.flights.fail(why)
		p.asks.stop()
		p.backend.lost(p)
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

// diagnose turns the end of a stream into the reason a person needs: a process
// that ended is one for both streams.
func (p *stdioProcess) diagnose(err error) error {
	var rpc *mcp.Error
	if errors.As(err, &rpc) {
		return err // the reason already
	}
	timeout := time.NewTimer(exitTime)
	defer timeout.Stop()
	select {
	case <-p.exited:
	case <-p.closing:
		return p.why
	case <-timeout.C:
		return gone("the server's process was ended because it closed its output (%v)", err)
	}
	switch {
	case errors.Is(p.exit, guest.ErrLineLost):
		return gone("the server is gone: %v", p.exit)
	case p.exit != nil:
		return gone("the server's process ended: %v", p.exit)
	default:
		return gone("the server's process ended: exit status 0")
	}
}

// handshake initializes the server on behalf of client (MCP, Lifecycle,
// Initialization).
func (p *stdioProcess) handshake(ctx context.Context, client *exchange.Client) error {
	init, err := initializeRequest(client)
	if err != nil {
		return err
	}
	f, out, err := p.flights.add(&exchange.Exchange{Client: client, Request: init, Peer: p.session})
	if err != nil {
		return err
	}
	defer p.flights.remove(f)
	if err := p.send(ctx, out); err != nil {
		return err
	}
	answer, err := f.wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	version, err := negotiated("the server", answer)
	if err != nil {
		return err
	}
	p.version.Store(&version)
	p.info = answer.Result
	return p.send(ctx, initializedNotification())
}

// play plays x out. ctx ends when the client cancels or goes away. sent reports
// whether the server may have got the request.
func (p *stdioProcess) play(ctx context.Context, x *exchange.Exchange) (answer *mcp.Message, sent bool, err error) {
	line := &leash{peer: x.Peer}
	defer line.drop()
	f, out, err := p.flights.add(&exchange.Exchange{Client: x.Client, Request: x.Request, Peer: line})
	if err != nil {
		return nil, false, err
	}
	if err := p.send(ctx, out); err != nil {
		p.flights.remove(f)
		return nil, false, err
	}
	answer, err = f.wait(ctx)
	if err != nil && ctx.Err() != nil {
		if p.flights.has(f) {
			p.abandon(f)
		}
		return nil, true, context.Cause(ctx)
	}
	return answer, true, err
}

// abandon tells the server that nobody waits for f any more. Among requests of
// several clients f stays in the table for a while, without its client: what the server
// still says about it must not look as if it were about the one other request
// in flight.
func (p *stdioProcess) abandon(f *flight) {
	switch {
	case !p.flights.shared.Load():
		p.flights.remove(f)
	case p.abandoned.Add(1) > maxAbandoned:
		p.abandoned.Add(-1)
		p.flights.forsake(f, time.Now().Add(abandonTime))
	default:
		time.AfterFunc(abandonTime, func() {
			p.abandoned.Add(-1)
			p.flights.remove(f)
		})
	}
	p.words.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), partingTime)
		defer cancel()
		err := p.send(ctx, f.cancelled())
		if err == nil {
			err = p.flush(ctx)
		}
		if err != nil && !p.over() {
			p.log.Warn("the server was not told of a cancelled request", "method", f.method, "error", err)
		}
	})
}

// handle is what the reader does with each message. It must not wait.
func (p *stdioProcess) handle(m *mcp.Message) {
	if p.over() {
		return
	}
	switch m.Kind() {
	case mcp.Response:
		switch {
		case p.flights.deliver(m):
		case isNameless(m) && !p.complained.Swap(true):
			p.log.Warn("the server could not read a message, or does not say which it answers", "error", printable(m.Error.Message), "code", m.Error.Code)
		default:
			p.log.Debug("an answer of the server is for no request, or came too late", "id", m.ID.String())
		}
	case mcp.Request:
		if err := p.asks.put(m, p.ask); err != nil {
			p.fail(err)
		}
	case mcp.Notification:
		p.notify(m)
	}
}

func (p *stdioProcess) ask(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	if p.isModern() {
		return nil, errNoQuestions
	}
	if p.common != nil {
		return nil, notDeclared(q)
	}
	return p.flights.ask(ctx, q, p.session)
}

func (p *stdioProcess) notify(m *mcp.Message) {
	switch {
	case p.isModern():
		p.notifyModern(m)
	case m.Method == mcp.NotificationCancelled:
		p.asks.cancel(m)
	case p.flights.notify(m):
	case p.common == nil:
		p.session.Notify(m)
	case strings.HasSuffix(m.Method, "/list_changed"):
		p.backend.mu.Lock()
		sessions := make([]*stdioConn, 0, len(p.sessions))
		for c := range p.sessions {
			sessions = append(sessions, c)
		}
		p.backend.mu.Unlock()
		for _, c := range sessions {
			c.session.Notify(m)
		}
	default:
		p.log.Debug("a notification of a shared process is dropped: whose it is cannot be told", "method", printable(m.Method))
	}
}

// sendAnswer sends what came of a question of the server.
func (p *stdioProcess) sendAnswer(ctx context.Context, m *mcp.Message) {
	if err := p.send(ctx, m); err != nil && !p.over() {
		p.log.Warn("an answer did not reach the server", "id", m.ID.String(), "error", err)
	}
}
