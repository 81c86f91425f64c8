package backend

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on what is done for a server without a client waiting.
const (
	// partingTime bounds a cancellation notice and the DELETE of a session.
	partingTime = 5 * time.Second
	// drainTime is how long a response stream may stay open after the answer; a
	// server that ends it in time has its connection used again.
	drainTime = time.Second
	// listenTime is how long Listen waits at least for the server to accept the stream
	// of the session, so that nothing is lost that it sends to a client that listens.
	listenTime = 250 * time.Millisecond
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
	// listen is how long Listen waits at least; 0 means listenTime. Tests that rely on
	// the stream make it longer than a machine can be busy.
	listen time.Duration
}

// NewStreamable is the backend for servers of the streamable HTTP transport
// (MCP, Transports, Streamable HTTP), in version 2026-07-28, which has no
// sessions, and in versions 2025-03-26 to 2025-11-25, where every Open is a
// session of its own at the server.
func NewStreamable(cfg StreamableConfig) exchange.Backend {
	if cfg.Transport == nil {
		cfg.Transport = newTransport()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.listen <= 0 {
		cfg.listen = listenTime
	}
	return newBridge(&streamable{cfg: cfg}, newModernHTTP(cfg), cfg.Stateless, cfg.Log)
}

type streamable struct {
	exchange.BackendDefaults
	cfg StreamableConfig
	connections
	leaving workers // end sessions whose clients left while they began
}

func (b *streamable) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	r, err := newRemote(b.cfg.URL, b.cfg.Transport)
	if err != nil {
		return nil, err
	}
	c := b.newConn(r, session)
	opening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opened := make(chan error, 1)
	go func() {
		_, err := b.begin(opening, c, c.httpSession, func(ctx context.Context) error { return c.handshake(ctx, client) })
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
		if !b.leaving.start(func() { b.leave(c, opened, cancel) }) {
			cancel()
		}
		return nil, ctx.Err()
	}
}

// leave ends a session whose client left while it began. The server may have begun it
// by then, and says only in its answer which it is: cut off at once, it would keep the
// session for nobody.
func (b *streamable) leave(c *streamableConn, opened <-chan error, cancel context.CancelFunc) {
	defer cancel()
	if b.track(c.ctx, c) != nil {
		cancel()
	}
	patience := time.AfterFunc(partingTime, cancel)
	defer patience.Stop()
	if err := <-opened; err == nil { // else it is closed
		_ = c.Close()
	}
}

// Close ends every session.
func (b *streamable) Close() error {
	b.closeAll()
	b.leaving.wait()
	(&http.Client{Transport: b.cfg.Transport}).CloseIdleConnections()
	return nil
}

// streamableConn is one session at a streamable HTTP server.
type streamableConn struct {
	*httpSession
	id      string // set by the handshake; guarded by mu
	mark    []byte // the server's
	resumed bool   // the session was there before the connection
	deaf    bool   // there is no standalone stream
	listen  time.Duration
	// settled is closed when it is known whether the standalone stream is there;
	// nil until somebody listens. Guarded by mu.
	settled chan struct{}
	streams atomic.Bool   // the standalone stream is there
	took    time.Duration // the handshake
}

func (b *streamable) newConn(r *remote, session exchange.Peer) *streamableConn {
	c := &streamableConn{httpSession: newHTTPSession(r, session, b.cfg.Log), mark: b.mark(), deaf: b.cfg.Stateless, listen: b.cfg.listen}
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
		return gone("the server at %s gave a session id that is not visible ASCII", c.remote)
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

func (c *streamableConn) hasSession() bool {
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
	f, out, err := c.flights.add(x)
	if err != nil {
		return nil, err
	}
	if !c.work.enter() {
		c.flights.remove(f)
		return nil, errClosed(c.remote.String())
	}
	defer c.work.leave()
	// It may outlive ctx, until its stream ends, but not a cancellation, and not f.
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, cancel)
	c.flights.watch(f, cancel)
	rest, err := c.play(request, f, out, first)
	unwatch()
	cancelled := ctx.Err() != nil && c.abandon(f)
	c.flights.settle(f, err)
	if rest == nil || !c.work.start(func() { c.finish(rest, f, cancel) }) {
		cancel()
	}
	if cancelled {
		return nil, ctx.Err()
	}
	return f.answer, f.err
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
		err := sessionGone(c.remote.String())
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
		c.flights.fail(errClosed(c.remote.String()))
		c.words.wait()
		c.stop()
		c.asks.close()
		c.work.wait()
		if tell && !lost && c.hasSession() {
			c.delete()
		}
	})
}

// delete tells the server that the session is over; it may answer 405 (MCP,
// Streamable HTTP, Session Management, 5).
func (c *streamableConn) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	resp, err := c.do(ctx, http.MethodDelete, c.url, c.header(), nil)
	if err != nil {
		c.log.Info("the server was not told that the session is over", "error", err)
		return
	}
	discard(resp)
}

// sessionGone is what fronts turn into HTTP 404, so that the client starts a
// new session (MCP, Streamable HTTP, Session Management, 3 and 4).
func sessionGone(server string) error {
	return &mcp.Error{Code: mcp.CodeSessionNotFound,
		Message: "the server at " + server + " no longer knows the session; initialize again"}
}

func errClosed(server string) error {
	return gone("the connection to the server at %s is closed", server)
}
