package owner

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// deniedFlag is the context key of the flag that reach sets when the server refuses a
// request for lack of a credential.
type deniedFlag struct{}

func noteDenied(ctx context.Context, status int) {
	if denied, ok := ctx.Value(deniedFlag{}).(*atomic.Bool); ok && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		denied.Store(true)
	}
}

// connect performs the handshake of the owner's own session. It has no caller. Where the
// credential is a caller's (token exchange), a server that refuses the session for lack of
// one is there, and the connection is a callerless.
func (w *watch) connect(ctx context.Context) (exchange.Conn, error) {
	var denied atomic.Bool
	ctx = context.WithValue(credential.Anonymous(ctx), deniedFlag{}, &denied)
	conn, err := w.backend.Open(ctx, self(), toolPeer{tools: w.owner.tools})
	if err != nil && denied.Load() && workload.PerCaller(w.owner.spec) {
		return &callerless{watch: w, done: make(chan struct{})}, nil
	}
	return conn, err
}

// callerless is the connection of the watch to a server that accepts the credentials of
// callers only. A ping attempts the handshake; that the server refuses it is its response.
type callerless struct {
	exchange.ConnDefaults
	watch *watch
	done  chan struct{} // never closed: there is no session that could end
}

// InitializeResult implements [exchange.Conn].
func (c *callerless) InitializeResult() json.RawMessage { return nil }

// Do implements [exchange.Conn].
func (c *callerless) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if x.Request.Method != mcp.MethodPing {
		return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: "the server serves callers only, and the gateway itself has no credential"}
	}
	conn, err := c.watch.connect(ctx)
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
}

// Notify implements [exchange.Conn].
func (c *callerless) Notify(context.Context, *mcp.Message) error { return nil }

// Done implements [exchange.Conn].
func (c *callerless) Done() <-chan struct{} { return c.done }

// Close implements [exchange.Conn].
func (c *callerless) Close() error { return nil }
