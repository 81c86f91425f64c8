package httpconn

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on what is done for a server without a client waiting.
const (
	// drainTime is how long a response stream may stay open after the answer; a
	// server that ends it in time has its connection used again.
	drainTime = time.Second
	// lostTime is how long requests in a shared session may still be answered
	// after the server said to one of them that it does not know the session.
	lostTime = time.Minute
)

// StreamableConfig says how to reach a streamable HTTP server.
type StreamableConfig struct {
	// URL is the server's endpoint.
	URL string
	// Transport carries the requests, and the credentials if there are any; nil
	// means a plain one.
	Transport http.RoundTripper
	// Stateless forbids the standalone GET stream. Without it a server that
	// does not offer the stream is found out.
	Stateless bool
	// Log may be nil.
	Log *slog.Logger
	// ListenTime is how long Listen waits at least for the stream of the session; 0
	// means a quarter of a second.
	ListenTime time.Duration
}

// WithDefaults returns cfg with what it leaves out.
func (cfg StreamableConfig) WithDefaults() StreamableConfig {
	if cfg.Transport == nil {
		cfg.Transport = newTransport()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ListenTime <= 0 {
		cfg.ListenTime = wire.ListenTimeout
	}
	return cfg
}

// NewStreamable is the way to the server in the session era. cfg is complete.
func NewStreamable(cfg StreamableConfig) *Streamable { return &Streamable{cfg: cfg} }

// Streamable connects to one streamable HTTP server in the session era.
type Streamable struct {
	exchange.BackendDefaults
	cfg StreamableConfig
	connections
	leaving wire.Group // end sessions whose clients left while they began
}

// Open begins a session at the server.
func (b *Streamable) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	r, err := newRemote(b.cfg.URL, b.cfg.Transport)
	if err != nil {
		return nil, err
	}
	c := b.newConn(r, session)
	opening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opened := make(chan error, 1)
	go func() {
		_, err := b.begin(opening, c, c.serverSession, func(ctx context.Context) error { return c.handshake(ctx, client) })
		opened <- err
	}()
	select {
	case err := <-opened:
		cancel()
		if err != nil {
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		if !b.leaving.Go(func() { b.leave(c, opened, cancel) }) {
			cancel()
		}
		return nil, ctx.Err()
	}
}

// leave ends a session whose client left while it began. The server may have begun it
// by then, and says only in its answer which it is: cut off at once, it would keep the
// session for nobody.
func (b *Streamable) leave(c *streamableConn, opened <-chan error, cancel context.CancelFunc) {
	defer cancel()
	if b.track(c.ctx, c) != nil {
		cancel()
	}
	patience := time.AfterFunc(wire.FarewellTimeout, cancel)
	defer patience.Stop()
	if err := <-opened; err == nil { // else it is closed
		_ = c.Close()
	}
}

// Close ends every session.
func (b *Streamable) Close() error {
	b.closeAll()
	b.leaving.Close()
	(&http.Client{Transport: b.cfg.Transport}).CloseIdleConnections()
	return nil
}

// streamableConn is one session at a streamable HTTP server.
type streamableConn struct {
	*serverSession
	id       string // set by the handshake; guarded by mu
	mark     []byte // the server's
	resumed  bool   // the session was there before the connection
	noStream bool   // there is no standalone stream
	listen   time.Duration
	// settled is closed when it is known whether the standalone stream is there;
	// nil until somebody listens. Guarded by mu.
	settled chan struct{}
	streams atomic.Bool   // the standalone stream is there
	took    time.Duration // the handshake
}

var _ exchange.Conn = (*streamableConn)(nil)

func (b *Streamable) newConn(r *remote, session exchange.Peer) *streamableConn {
	c := &streamableConn{serverSession: newServerSession(r, session, b.cfg.Log), mark: b.mark(), noStream: b.cfg.Stateless, listen: b.cfg.ListenTime}
	c.push = c.send
	return c
}

func (c *streamableConn) handshake(ctx context.Context, client *exchange.Client) error {
	began := time.Now()
	defer func() { c.took = time.Since(began) }()
	return c.initialize(ctx, client, func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		return c.request(ctx, x, c.takeID)
	})
}

// takeID reads the session's id off the response to initialize, before its body,
// where a stream of events may already need it.
func (c *streamableConn) takeID(resp *http.Response) error {
	id := resp.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		return nil
	}
	if !isVisibleASCII(id) {
		return wire.ServerGone("the server at %s gave a session id that is not visible ASCII", c.remote)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
	return nil
}

// header is what every request of the session carries; it is the caller's.
func (c *streamableConn) header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := http.Header{}
	if c.id != "" {
		h.Set(mcp.HeaderSessionID, c.id)
	}
	if c.version != "" {
		h.Set(mcp.HeaderVersion, string(c.version))
	}
	return h
}

// HasSession reports whether the server gave the session an id.
func (c *streamableConn) HasSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id != ""
}

// isVisibleASCII is the rule for session ids (MCP, Streamable HTTP, Session
// Management, 1).
func isVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// Do plays out one exchange.
func (c *streamableConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	return c.request(ctx, x, nil)
}

// request sends x and waits for its answer, which may come on the response, on
// the stream that continues it, or on the session's stream. first, if there is
// one, sees the successful response before it is read. All of that happens on the
// caller's goroutine; only what a stream brings after the answer does not.
func (c *streamableConn) request(ctx context.Context, x *exchange.Exchange, first func(*http.Response) error) (*mcp.Message, error) {
	line := wire.NewCallPeer(x.Peer)
	defer line.Detach()
	f, out, err := c.pending.Add(&exchange.Exchange{Client: x.Client, Request: x.Request, Peer: line})
	if err != nil {
		return nil, err
	}
	if !c.work.Enter() {
		c.pending.Remove(f)
		return nil, wire.ErrClosed(c.remote.String())
	}
	defer c.work.Leave()
	// It may outlive ctx, until its stream ends, but not a cancellation, and not f.
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, cancel)
	c.pending.OnEnd(f, cancel)
	rest, err := c.play(request, f, out, first)
	unwatch()
	cancelled := false
	if ctx.Err() != nil {
		line.Detach()
		cancelled = c.abandon(f)
	}
	if !cancelled {
		c.pending.Settle(f, err)
	}
	if rest == nil || !c.work.Go(func() { c.finish(rest, f, cancel) }) {
		cancel()
	}
	if cancelled {
		return nil, ctx.Err()
	}
	return f.Answer, f.Err
}

// send POSTs a message that has no answer of its own.
func (c *streamableConn) send(ctx context.Context, m *mcp.Message, what string) error {
	resp, err := c.post(ctx, c.url, c.header(), m)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return c.refusedHere(c.refused(resp, what))
	}
	discard(resp)
	return nil
}

// refusedHere turns a refusal into an error, and ends the session if that is
// what the refusal means.
func (c *streamableConn) refusedHere(f *refusal) error {
	if c.isLostBy(f) {
		err := wire.SessionNotFound(c.remote.String())
		c.lose(err)
		return err
	}
	return f.err()
}

// Close ends the session at the server (DELETE) and everything that runs for
// it. What is in flight fails.
func (c *streamableConn) Close() error {
	c.close(true)
	return nil
}

func (c *streamableConn) close(tell bool) {
	c.shut.Do(func() {
		lost := true
		c.end.Do(func() {
			lost = false
			close(c.done)
		})
		c.pending.Fail(wire.ErrClosed(c.remote.String()))
		c.farewells.Close()
		c.stop()
		c.serverRequests.Close()
		c.work.Close()
		if tell && !lost && c.HasSession() {
			c.delete()
		}
	})
}

// delete tells the server that the session is over; it may answer 405 (MCP,
// Streamable HTTP, Session Management, 5).
func (c *streamableConn) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
	defer cancel()
	resp, err := c.do(ctx, http.MethodDelete, c.url, c.header(), nil)
	if err != nil {
		c.log.Info("the server was not told that the session is over", "error", err)
		return
	}
	discard(resp)
}
