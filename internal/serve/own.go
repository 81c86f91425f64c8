package serve

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

// Self is the process as a client of the server. It declares no capabilities, so the server
// cannot send it requests.
func Self() *exchange.Client {
	return &exchange.Client{
		Version:       mcp.LatestSession,
		Capabilities:  json.RawMessage(`{}`),
		Info:          json.RawMessage(`{"name":"thv","version":"1"}`),
		LivenessCheck: true,
	}
}

// NoPeer is the Peer of a client that takes no notifications and answers no requests.
type NoPeer struct{ exchange.PeerDefaults }

// Notify implements [exchange.Peer].
func (NoPeer) Notify(*mcp.Message) {}

// Ask implements [exchange.Peer].
func (NoPeer) Ask(_ context.Context, m *mcp.Message) (*mcp.Message, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the health check answers no questions"}
}

// Own is the process's own session with the server: that the server answers it is what
// "running" means.
type Own struct {
	Spec    *workload.Spec
	Backend exchange.Backend
	// Reach observes requests to an HTTP server; nil for stdio.
	Reach *Reach
	// Peer receives the server's notifications.
	Peer exchange.Peer
}

// Connect performs the handshake. The session has no caller. Where the credential is a
// caller's (token exchange), a server that refuses the session for lack of one is there, and
// the connection is one for which [Callerless] is true.
func (o *Own) Connect(ctx context.Context) (exchange.Conn, error) {
	var denied atomic.Bool
	ctx = context.WithValue(credential.Anonymous(ctx), deniedFlag{}, &denied)
	conn, err := o.Backend.Open(ctx, Self(), o.Peer)
	if err != nil && denied.Load() && workload.PerCaller(o.Spec) {
		return &callerless{own: o, done: make(chan struct{})}, nil
	}
	return conn, err
}

// Callerless reports whether conn is to a server that refuses the process's own session.
func Callerless(conn exchange.Conn) bool {
	_, ok := conn.(*callerless)
	return ok
}

// Ping checks that the server responds (MCP basic/utilities/ping). Any response counts, also
// an error. The stateless era has no ping, and the connection to a server of that era answers
// one by itself; such a server gets server/discover, which each of them supports (MCP
// 2026-07-28).
func (o *Own) Ping(ctx context.Context, conn exchange.Conn) error {
	ctx = credential.Anonymous(ctx)
	var sent atomic.Bool
	_, err := conn.Do(context.WithValue(ctx, sentFlag{}, &sent), &exchange.Exchange{
		Client:  Self(),
		Request: &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodPing},
		Peer:    NoPeer{},
	})
	// A ping over HTTP+SSE is sent by its connection, and that transport has no stateless
	// era.
	if err == nil && o.Reach != nil && o.Spec.Transport != workload.SSE && !sent.Load() {
		client := Self()
		client.Version = mcp.LatestStateless
		_, err = o.Backend.Do(ctx, &exchange.Exchange{
			Client: client,
			Request: &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodDiscover, Params: json.RawMessage(`{"_meta":{"` +
				mcp.MetaVersion + `":"` + string(mcp.LatestStateless) + `","` + mcp.MetaCapabilities + `":{}}}`)},
			Peer: NoPeer{},
		})
	}
	return err
}

// callerless is the process's own connection to a server that accepts the credentials of
// callers only. A ping attempts the handshake; that the server refuses it is its response.
type callerless struct {
	exchange.ConnDefaults
	own  *Own
	done chan struct{} // never closed: there is no session that could end
}

// InitializeResult implements [exchange.Conn].
func (c *callerless) InitializeResult() json.RawMessage { return nil }

// Do implements [exchange.Conn].
func (c *callerless) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if x.Request.Method != mcp.MethodPing {
		return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: "the server serves callers only, and the gateway itself has no credential"}
	}
	conn, err := c.own.Connect(ctx)
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
