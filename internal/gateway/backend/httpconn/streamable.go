package httpconn

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on work that continues while no client waits for it.
const (
	// drainTime is how long an HTTP response may stay open after the JSON-RPC response. If
	// the server ends it in time, its connection is reused.
	drainTime = time.Second
	// lostTime is how long the server may still respond to the requests of a shared
	// session after it refused one because it does not have the session.
	lostTime = time.Minute
)

// StreamableConfig configures [NewStreamable] and [NewStateless].
type StreamableConfig struct {
	// URL is the server's endpoint.
	URL string
	// Transport sends the requests and adds credentials, if there are any; nil means the
	// default transport.
	Transport http.RoundTripper
	// Stateless disables the standalone GET stream. Otherwise the gateway requests the
	// stream, which the server may refuse.
	Stateless bool
	// Log may be nil.
	Log *slog.Logger
	// ListenTime is the least time for which Listen waits for the standalone stream; 0
	// means a quarter of a second.
	ListenTime time.Duration
}

// WithDefaults returns cfg with defaults for the fields that are not set.
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

// NewStreamable returns the [Streamable] of the server at cfg.URL. cfg must be a result of
// [StreamableConfig.WithDefaults].
func NewStreamable(cfg StreamableConfig) *Streamable { return &Streamable{cfg: cfg} }

// Streamable connects to one streamable HTTP server in the session era.
type Streamable struct {
	exchange.BackendDefaults
	cfg StreamableConfig
	connections
	leaving wire.Group // ends sessions whose clients left during the handshake
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

// leave ends a session whose client left during the handshake. It waits for the response
// to initialize, which carries the session id: without the id the session could not be
// ended and would stay open at the server.
func (b *Streamable) leave(c *streamableConn, opened <-chan error, cancel context.CancelFunc) {
	defer cancel()
	if b.track(c.ctx, c) != nil {
		cancel()
	}
	patience := time.AfterFunc(wire.FarewellTimeout, cancel)
	defer patience.Stop()
	if err := <-opened; err == nil { // otherwise c is closed already
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
	id     string // set by the handshake; guarded by mu
	mark   []byte // identifies the server: see [Streamable.mark]
	stream getStream
}

var _ exchange.Conn = (*streamableConn)(nil)

func (b *Streamable) newConn(r *remote, session exchange.Peer) *streamableConn {
	c := &streamableConn{serverSession: newServerSession(r, session, b.cfg.Log), mark: b.mark()}
	c.stream.conn, c.stream.disabled, c.stream.listen = c, b.cfg.Stateless, b.cfg.ListenTime
	c.push = c.send
	return c
}

func (c *streamableConn) handshake(ctx context.Context, client *exchange.Client) error {
	began := time.Now()
	defer func() { c.stream.took = time.Since(began) }()
	return c.initialize(ctx, client, func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		return c.request(ctx, x, c.takeID)
	})
}

// takeID reads the session id from the headers of the response to initialize. It is called
// before the body is read: handling the messages of an event stream may need the id.
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

// header returns the headers that every request of the session carries. The caller owns
// the result.
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

// HasSession reports whether the server issued a session id.
func (c *streamableConn) HasSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id != ""
}

// isVisibleASCII reports whether s consists of visible ASCII, as a session id must (MCP,
// Streamable HTTP, Session Management, 1).
func isVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// Do sends one request and returns its response.
func (c *streamableConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	return c.request(ctx, x, nil)
}

// send POSTs a message that has no response.
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

// refusedHere returns the error of a refusal. It ends the session if the refusal means
// that the server does not have it.
func (c *streamableConn) refusedHere(f *refusal) error {
	if c.isLostBy(f) {
		err := wire.SessionNotFound(c.remote.String())
		c.lose(err)
		return err
	}
	return f.err()
}

// Close ends the session at the server (DELETE) and waits for the goroutines of the
// connection. Pending requests fail.
func (c *streamableConn) Close() error {
	c.close(true)
	return nil
}

// close ends the connection. It ends the session at the server, too, if farewell is set.
func (c *streamableConn) close(farewell bool) {
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
		if farewell && !lost && c.HasSession() {
			c.delete()
		}
	})
}

// delete ends the session at the server, which may respond 405 (MCP, Streamable HTTP,
// Session Management, 5).
func (c *streamableConn) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
	defer cancel()
	resp, err := c.do(ctx, http.MethodDelete, c.url, c.header(), nil)
	if err != nil {
		c.log.Info("the session could not be ended at the server", "error", err)
		return
	}
	discard(resp)
}
