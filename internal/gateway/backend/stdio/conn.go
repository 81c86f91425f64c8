package stdio

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// conn is one session on a process of the server.
type conn struct {
	exchange.ConnDefaults
	backend *Pool
	client  *exchange.Client
	session exchange.Peer
	info    json.RawMessage

	// ctx ends with the session; its end cancels the pending requests.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}

	// slow is set while the client does not read: see [paced].
	slow atomic.Bool

	// moving is held while a process of its own is started for the session.
	moving chan struct{}

	mu      sync.Mutex
	over    bool
	shared  bool // the requests are of several clients: see Share
	process *process
	level   string // the log level that was set in a shared process, "" for none

	// preference is what a shared process keeps for the session; set before the first
	// request.
	preference *preference
}

func newConn(b *Pool, client *exchange.Client, session exchange.Peer) *conn {
	c := &conn{
		backend: b, client: client, session: wire.OrNoPeer(session),
		done: make(chan struct{}), moving: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// assign sets the process of a new session.
func (c *conn) assign(p *process) {
	c.info = p.info
	c.mu.Lock()
	c.process = p
	c.mu.Unlock()
	if p.over() { // it ended before it was assigned
		c.lose(p)
	}
}

// Share marks the session as one for the requests of several clients, also when it has a
// process of its own. It is called before the first request.
func (c *conn) Share() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = true
	if c.process.shared == nil {
		c.process.pending.Shared.Store(true)
	}
}

// errSessionClosed fails the requests of a session that was closed.
var errSessionClosed = wire.ServerGone("the session was closed before the server answered")

// InitializeResult returns the server's InitializeResult, raw.
func (c *conn) InitializeResult() json.RawMessage { return c.info }

// Done is closed when the session's process has ended, and by Close.
func (c *conn) Done() <-chan struct{} { return c.done }

// Do sends the request of x and returns the response.
func (c *conn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	if needsOwnProcess(x.Request) {
		if err := c.move(ctx); err != nil {
			return nil, err
		}
	}
	p, err := c.use()
	if err != nil {
		return nil, err
	}
	defer c.backend.release(p)
	sent := *x
	sent.Peer = p.pacer.wrap(x.Peer, &c.slow)
	if p.shared != nil {
		if isPreference(x.Request.Method) {
			return p.preferences.do(ctx, c.preference, &sent)
		}
		sent.Peer = leveled{sent.Peer, c}
	}
	answer, _, err := p.roundTrip(ctx, &sent)
	return answer, err
}

// Notify passes a client's notification to the server.
func (c *conn) Notify(ctx context.Context, m *mcp.Message) error {
	p, err := c.use()
	if err != nil {
		return err
	}
	defer c.backend.release(p)
	return p.send(ctx, m)
}

// use returns the session's process and registers a user of it. The caller releases it.
func (c *conn) use() (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, context.Cause(c.ctx)
	}
	c.backend.mu.Lock()
	defer c.backend.mu.Unlock()
	c.process.use.users++
	return c.process, nil
}

// move gives the session a process of its own, unless it has one. Requests in
// flight are answered by the process to which they were sent.
func (c *conn) move(ctx context.Context) error {
	select {
	case c.moving <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.moving }()
	c.mu.Lock()
	alone := c.process.shared == nil
	c.mu.Unlock()
	if alone {
		return nil
	}
	own, err := c.backend.begin(ctx, c)
	if err != nil {
		return err
	}
	c.preference.restore(ctx, own.requests)
	c.mu.Lock()
	before, over := c.process, c.over
	if !over {
		own.pending.Shared.Store(c.shared)
		c.process = own
	}
	c.mu.Unlock()
	if over {
		own.end(errSessionClosed)
		return context.Cause(c.ctx)
	}
	before.dismiss(c)
	if own.over() { // it ended before it was assigned
		c.lose(own)
		return own.why()
	}
	return nil
}

// logLevel returns the log level that the client set, "" for none.
func (c *conn) logLevel() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

func (c *conn) setLogLevel(level string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = level
}

// lose ends the session if p is still its process, which has ended.
func (c *conn) lose(p *process) { c.finish(p, p.why()) }

// finish ends the session and returns its process. It returns nil if the session has ended
// already, or if only is not nil and not the session's process.
func (c *conn) finish(only *process, why error) *process {
	c.mu.Lock()
	if c.over || only != nil && c.process != only {
		c.mu.Unlock()
		return nil
	}
	c.over = true
	c.cancel(why) // before c.mu is released: over implies a cause
	p := c.process
	c.mu.Unlock()
	close(c.done)
	return p
}

// Close ends the session and its pending requests. If the session has a process of its own,
// Close ends it and waits until it has exited.
func (c *conn) Close() error {
	p := c.finish(nil, errSessionClosed)
	if p == nil {
		c.mu.Lock()
		p = c.process
		c.mu.Unlock()
	} else {
		p.dismiss(c)
	}
	if p.shared == nil {
		p.closing.Store(true)
		p.farewells.Close()
		p.end(errSessionClosed)
		<-p.ended
	}
	return nil
}
