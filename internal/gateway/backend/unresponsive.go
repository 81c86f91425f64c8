package backend

import (
	"context"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// failFast is the [exchange.Backend] of an HTTP server. While the server is unresponsive
// it fails pending and new requests: an HTTP server that is stopped leaves them open for
// as long as its kernel keeps the connections.
type failFast struct {
	exchange.Backend

	mu sync.Mutex
	// responsive is cancelled, with the reason, when the server becomes unresponsive.
	responsive context.Context
	fail       context.CancelCauseFunc
}

func newFailFast(b exchange.Backend) *failFast {
	f := &failFast{Backend: b}
	f.responsive, f.fail = context.WithCancelCause(context.Background())
	return f
}

// Unresponsive implements [exchange.Backend].
func (f *failFast) Unresponsive(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		f.fail(err)
	case f.responsive.Err() != nil:
		f.responsive, f.fail = context.WithCancelCause(context.Background())
	}
	f.Backend.Unresponsive(err)
}

// Open implements [exchange.Backend].
func (f *failFast) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := f.Backend.Open(ctx, client, session)
	if err != nil {
		return nil, err
	}
	return &failFastConn{conn, f}, nil
}

// Resume implements [exchange.Backend].
func (f *failFast) Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error) {
	conn, err := f.Backend.Resume(ctx, client, handle, session)
	if err != nil {
		return nil, err
	}
	return &failFastConn{conn, f}, nil
}

// Do implements [exchange.Backend].
func (f *failFast) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	return f.do(ctx, x, f.Backend.Do)
}

// do sends x by send, and fails x when the server is or becomes unresponsive. Requests
// that show whether the server responds again are always sent.
func (f *failFast) do(ctx context.Context, x *exchange.Exchange, send func(context.Context, *exchange.Exchange) (*mcp.Message, error)) (*mcp.Message, error) {
	if x.Request.Method == mcp.MethodPing || x.Request.Method == mcp.MethodDiscover {
		return send(ctx, x)
	}
	f.mu.Lock()
	responsive := f.responsive
	f.mu.Unlock()
	if responsive.Err() != nil {
		return nil, context.Cause(responsive)
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(responsive, func() { cancel(context.Cause(responsive)) })()
	m, err := send(bound, x)
	if err != nil && ctx.Err() == nil && bound.Err() != nil {
		return nil, context.Cause(bound)
	}
	return m, err
}

// failFastConn is a session of a [failFast].
type failFastConn struct {
	exchange.Conn
	backend *failFast
}

// Do implements [exchange.Conn].
func (c *failFastConn) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	return c.backend.do(ctx, x, c.Conn.Do)
}
