package httpconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// endpointTime bounds the wait for a server's endpoint event.
const endpointTime = 30 * time.Second

// SSEConfig configures [NewSSE].
type SSEConfig struct {
	// URL is that of the server's event stream.
	URL string
	// Transport sends the requests and adds credentials, if there are any; nil means the
	// default transport.
	Transport http.RoundTripper
	// Log may be nil.
	Log *slog.Logger
}

// NewSSE returns the [SSE] of the server at cfg.URL.
func NewSSE(cfg SSEConfig) *SSE {
	if cfg.Transport == nil {
		cfg.Transport = newTransport()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &SSE{cfg: cfg}
}

// SSE connects to one server of the HTTP+SSE transport.
type SSE struct {
	exchange.BackendDefaults
	cfg SSEConfig
	connections
}

// Open opens an event stream, which is a session, and performs the handshake.
func (b *SSE) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	r, err := newRemote(b.cfg.URL, b.cfg.Transport)
	if err != nil {
		return nil, err
	}
	c, err := dialSSE(ctx, r, session, b.cfg.Log)
	if err != nil {
		return nil, err
	}
	return b.begin(ctx, c, c.serverSession, func(ctx context.Context) error { return c.initialize(ctx, client, c.Do) })
}

// Close closes every stream.
func (b *SSE) Close() error {
	b.closeAll()
	(&http.Client{Transport: b.cfg.Transport}).CloseIdleConnections()
	return nil
}

// sseConn is one event stream and the URL to which messages are POSTed.
type sseConn struct {
	exchange.ConnDefaults
	*serverSession
	endpoint *url.URL
}

var _ exchange.Conn = (*sseConn)(nil)

// eventStream is an open stream whose endpoint event has been read.
type eventStream struct {
	*openStream
	endpoint *url.URL
}

// openEvents opens the stream and waits for its endpoint event. The stream is closed when
// ctx ends; wait bounds only the wait for the endpoint event.
func openEvents(ctx, wait context.Context, r *remote) (*eventStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	stopWaiting := context.AfterFunc(wait, cancel)
	s, err := readEndpoint(ctx, r)
	if !stopWaiting() || err != nil {
		if s != nil {
			_ = s.body.Close()
		}
		cancel()
		if errors.Is(wait.Err(), context.Canceled) {
			err = wait.Err()
		} else if wait.Err() != nil {
			err = wire.ServerGone("the server at %s opened no event stream in time", r)
		}
		return nil, err
	}
	// From here on, the stream ends when its body is closed or the caller's ctx ends.
	s.body = closer{s.body, cancel}
	return s, nil
}

// closer closes a body and releases the context of its request.
type closer struct {
	io.Closer
	cancel context.CancelFunc
}

func (c closer) Close() error {
	defer c.cancel()
	return c.Closer.Close()
}

func readEndpoint(ctx context.Context, r *remote) (*eventStream, error) {
	resp, err := r.get(ctx, http.Header{}, "")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, r.refused(resp, "its event stream").err()
	}
	if t := mediaType(resp); t != mcp.TypeEventStream {
		_ = resp.Body.Close()
		return nil, wire.ServerGone("the server at %s answered with content type %q instead of an event stream; is this the URL of an SSE server?", r, wire.Printable(t))
	}
	s := &eventStream{openStream: newOpenStream(resp)}
	for {
		ev, err := s.events.Next()
		if err != nil {
			_ = resp.Body.Close()
			return nil, wire.ServerGone("the event stream of the server at %s ended before it named an endpoint: %v", r, err)
		}
		if ev.Name != mcp.EventEndpoint {
			continue
		}
		if s.endpoint, err = r.endpoint(string(ev.Data)); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
		return s, nil
	}
}

// endpoint resolves the URL of an endpoint event. It rejects a URL of another origin, to
// which requests and credentials would be sent.
func (r *remote) endpoint(ref string) (*url.URL, error) {
	u, err := r.url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return nil, wire.ServerGone("the server at %s named an endpoint that is no URL", r)
	}
	if !sameOrigin(u, r.url) {
		return nil, wire.ServerGone("the server at %s named the endpoint %s, which is of another origin; messages are not sent there", r, wire.Printable(origin(u)))
	}
	u.User, u.Fragment = r.url.User, ""
	return u, nil
}

// sameOrigin reports whether u has the origin of base and no other user. A relative
// reference inherits the user of its base (RFC 3986 section 5.2.2).
func sameOrigin(u, base *url.URL) bool {
	return origin(u) == origin(base) && (u.User == nil || base.User != nil && *u.User == *base.User)
}

// origin returns scheme, host and port (RFC 6454 section 4).
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

func dialSSE(ctx context.Context, r *remote, session exchange.Peer, log *slog.Logger) (*sseConn, error) {
	c := &sseConn{serverSession: newServerSession(r, session, log)}
	c.push = c.post
	wait, cancel := context.WithTimeout(ctx, endpointTime)
	defer cancel()
	c.callers.Attach(ctx)
	stream, err := openEvents(c.ctx, wait, r)
	if err != nil {
		c.stop()
		c.serverRequests.Close()
		return nil, err
	}
	c.endpoint = stream.endpoint
	c.work.Go(func() { c.read(stream) })
	return c, nil
}

// Do sends one request and returns its response. The response may arrive on the stream
// before the POST returns, since some servers end the POST only after the request is done.
// The POST therefore runs concurrently. It may outlive the response by drainTime; a
// cancellation and the end of the connection end it at once.
func (c *sseConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	line := wire.NewCallPeer(x.Peer)
	defer line.Detach()
	f, out, err := c.pending.Add(x, line)
	if err != nil {
		return nil, err
	}
	posting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(c.ctx, cancel)
	started := c.work.Go(func() {
		defer cancel()
		defer unwatch()
		if err := c.sendRequest(posting, out, f); err != nil && posting.Err() == nil {
			c.pending.Settle(f, err)
		}
	})
	if !started {
		unwatch()
		cancel()
		c.pending.Remove(f)
		return nil, wire.ErrClosed(c.remote.String())
	}
	answer, err := f.Wait(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		cancel()
		line.Detach()
		c.abandon(f)
	case posting.Err() == nil:
		time.AfterFunc(drainTime, cancel)
	}
	return answer, err
}

// sendRequest POSTs the request of f. Some servers send the response to f in the body of the HTTP
// response and not on the stream, so sendRequest accepts it there. Any other body is ignored.
func (c *sseConn) sendRequest(ctx context.Context, m *mcp.Message, f *correlate.PendingRequest) error {
	resp, err := c.send(ctx, m, m.Method)
	if err != nil {
		return err
	}
	if mediaType(resp) != mcp.TypeJSON {
		discard(resp)
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := c.readJSON(resp)
	if err != nil {
		return nil // the response may arrive on the stream
	}
	answer, err := mcp.Parse(body)
	if err != nil || answer.Kind() != mcp.Response || !c.pending.DeliverTo(f, answer) {
		c.log.Debug("what a POST was answered with is passed over: the answer comes on the stream", "method", f.Method)
	}
	return nil
}

// post POSTs one message that has no response.
func (c *sseConn) post(ctx context.Context, m *mcp.Message, what string) error {
	resp, err := c.send(ctx, m, what)
	if err == nil {
		discard(resp)
	}
	return err
}

// send POSTs one message and returns the HTTP response, whose body the caller closes. It
// fails if the server does not accept the message.
func (c *sseConn) send(ctx context.Context, m *mcp.Message, what string) (*http.Response, error) {
	h := http.Header{}
	c.mu.Lock()
	version := c.version
	c.mu.Unlock()
	if version != "" {
		h.Set(mcp.HeaderVersion, string(version))
	}
	resp, err := c.remote.post(ctx, c.endpoint, h, m)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		refused := c.refused(resp, what)
		if version == "" || !refused.meansSessionGone() {
			return nil, refused.err()
		}
		// The stream may still be open, but nothing more arrives on it.
		err := wire.SessionNotFound(c.remote.String())
		c.lose(err)
		return nil, err
	}
	return resp, nil
}

// read handles the events of the stream until it ends. Then the pending requests fail.
func (c *sseConn) read(s *eventStream) {
	err := c.readEvents(s)
	_ = s.body.Close()
	closed := c.ctx.Err() != nil
	if closed {
		err = wire.ErrClosed(c.remote.String())
	} else {
		err = wire.ServerGone("the server at %s ended its event stream before it answered: %v", c.remote, err)
		c.log.Info("the session ended", "error", err)
	}
	c.pending.Fail(err)
	c.end.Do(func() { close(c.done) })
	c.stop()
	c.serverRequests.Stop()
}

func (c *sseConn) readEvents(s *eventStream) error {
	for {
		ev, err := s.events.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("end of stream")
		}
		if err != nil {
			return withoutURL(err)
		}
		switch {
		case ev.Name == mcp.EventEndpoint:
			c.log.Warn("the server named a second endpoint; it is ignored")
		case ev.Name != mcp.EventMessage || len(ev.Data) == 0:
		default:
			if err := c.handle(ev.Data); err != nil {
				return err
			}
		}
	}
}

// handle dispatches one message of the server. It returns an error for an unreadable
// message that may have been the response to any pending request: no caller must wait for
// a response that has already arrived.
func (c *sseConn) handle(data []byte) error {
	m, err := mcp.Parse(data)
	if err != nil && c.pending.Unreadable(data, err, nil) {
		c.log.Warn("the server sent something that is not a JSON-RPC message", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("it sent something that is not a JSON-RPC message: %w", err)
	}
	return c.dispatch(nil, m)
}

// Close closes the stream, which ends the session. Pending requests fail.
func (c *sseConn) Close() error {
	c.shut.Do(func() {
		c.pending.Fail(wire.ErrClosed(c.remote.String()))
		c.farewells.Close()
		c.stop()
		c.serverRequests.Close()
		c.work.Close()
	})
	return nil
}
