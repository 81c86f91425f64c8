package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/paramheader"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/translate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sessions connects to a server of the session era over one transport.
type sessions interface {
	// Open performs the handshake on behalf of client, which is of the session era,
	// and begins a session for it.
	Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error)
	// Resume, SetEvictor and Unresponsive are described at [exchange.Backend].
	Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error)
	SetEvictor(evict func())
	Unresponsive(err error)
	Close() error
}

// bridge is the [exchange.Backend] of a server. It serves a client in the client's era
// if the server supports it, and through a translation otherwise: [translate.Down] serves
// session clients by a stateless server, [translate.Up] serves stateless clients by a
// server with sessions. bridge sends server/discover when a client's request first depends
// on the server's era (MCP 2026-07-28, Versioning, Backward Compatibility).
type bridge struct {
	sessions  sessions
	stateless wire.Stateless // nil when the transport does not exist in that era
	params    paramheader.Checks
	http      bool // stateless is over HTTP, where requests have headers
	// asIs disables down: session clients are served in the session era only
	// (--stateless).
	asIs  bool
	probe eraProbe
	// up serves stateless clients by sessions at the server.
	up *translate.Up
	// down serves session clients by a server without sessions.
	down *translate.Down
}

// endpoints holds the transports to one server, by era.
type endpoints struct {
	sessions  sessions
	stateless wire.Stateless // nil when the transport does not exist in that era
	http      bool           // stateless is over HTTP, where requests have headers
}

func newBridge(to endpoints, asIs bool, log *slog.Logger) *bridge {
	b := &bridge{sessions: to.sessions, stateless: to.stateless, http: to.http, asIs: asIs}
	b.probe.server = to.stateless
	b.params.Log = log
	b.up, b.down = translate.NewUp(b.begin, log), translate.NewDown(to.stateless, to.http, b.probe.refuses, b.probe.forget, log)
	return b
}

// begin begins a session at the server and records the outcome in b.probe.
func (b *bridge) begin(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.sessions.Open(ctx, client, session)
	b.probe.opened(client.Version, conn, err)
	return conn, err
}

// Open begins a session for a client of the session era. For the gateway's own session over
// HTTP it sends server/discover before initialize: a server that supports the stateless era
// only must not receive initialize (MCP 2026-07-28, Versioning, Backward Compatibility). A
// client's session begins with initialize, because many servers of both eras list versions
// of the stateless era only in their DiscoverResult.
func (b *bridge) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	if client.LivenessCheck && b.http && !b.asIs {
		info, err := b.probe.rediscover(ctx)
		switch {
		case err == nil && !wire.ListsSessions(info):
			return b.withoutSessions(ctx, info, client, session)
		case err != nil && (ctx.Err() != nil || b.probe.mayBeStateless(err)):
			return nil, err
		}
	}
	conn, err := b.begin(ctx, client, session)
	if b.stateless == nil || b.asIs {
		return conn, err
	}
	switch {
	case err == nil && !sessionless(conn):
		return conn, nil
	case err != nil && !wire.IsRefusal(err):
		return nil, err
	}
	// A server without sessions cannot send its clients requests in this era. A server
	// that refuses initialize, or answers it without a version of this era, may support
	// the other era only. It may still be starting, so the wait for it is longer.
	patience := discoverTime
	if err != nil {
		patience = wire.HandshakeTimeout
	}
	info, discoverErr := b.probe.discover(ctx, patience)
	if err != nil && discoverErr != nil && unsent(discoverErr) {
		// The server may accept initialize without the credential, and refuse it for the era.
		return nil, discoverErr
	}
	if discoverErr != nil {
		return conn, err
	}
	if conn != nil {
		_ = conn.Close()
	}
	return b.withoutSessions(ctx, info, client, session)
}

// unsent reports whether a request did not reach the server, or was rejected for its
// credential: the error is of the gateway, not the server's response nor its silence.
func unsent(err error) bool {
	_, status := errors.AsType[*wire.StatusError](err)
	return !status && !wire.IsRefusal(err) && !errors.Is(err, errSilent)
}

// withoutSessions begins a session that exists in the gateway only: the server is of the
// stateless era. info is its DiscoverResult.
func (b *bridge) withoutSessions(ctx context.Context, info json.RawMessage, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.down.Open(ctx, info, client, session)
	if err != nil {
		b.probe.forget() // the next DiscoverResult may be valid
	}
	return conn, err
}

// sessionless reports whether the server accepted initialize without a session id.
func sessionless(conn exchange.Conn) bool {
	c, ok := conn.(interface{ HasSession() bool })
	return ok && !c.HasSession()
}

// Do sends the request of a client of the stateless era and returns the response. For
// tools/call and tools/list it handles the Mcp-Param-* headers unless the server does.
func (b *bridge) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	method := x.Request.Method
	if method != mcp.MethodToolsCall && method != mcp.MethodToolsList || b.comparesHeaders(ctx) {
		return b.forward(ctx, x)
	}
	if method == mcp.MethodToolsCall {
		if err := b.params.Check(ctx, x, b.forward); err != nil {
			return nil, err
		}
		return b.forward(ctx, x)
	}
	m, err := b.forward(ctx, x)
	if err != nil || m.Error != nil {
		return m, err
	}
	return b.params.Of(x.Client.Principal).Pass(m)
}

// comparesHeaders reports whether the server supports the stateless era over HTTP, where
// it compares the Mcp-Param-* headers itself. It sends server/discover if no result is
// cached.
func (b *bridge) comparesHeaders(ctx context.Context) bool {
	if !b.http {
		return false
	}
	_, err := b.probe.discover(ctx, discoverTime)
	return err == nil
}

// forward sends the request of a client of the stateless era in the server's era. It sends
// it a second time in a new session if the server has lost the session.
func (b *bridge) forward(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	for again := true; ; again = false {
		m, err := b.forwardOnce(ctx, x)
		var rpc *mcp.Error
		if !again || !errors.As(err, &rpc) || rpc.Code != mcp.CodeSessionNotFound {
			return m, err
		}
		// The server has lost the session and may be of another era by now. The client
		// has no session, so the gateway begins a new one. A tools/call is never sent
		// twice: the server may have executed it.
		b.probe.forgetRefusal()
		if x.Request.Method == mcp.MethodToolsCall {
			return nil, wire.ServerGone("the server has lost its session, and may or may not have worked on the call; check, then make it again")
		}
	}
}

func (b *bridge) forwardOnce(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if b.stateless == nil {
		return b.up.Do(ctx, x)
	}
	if _, err := b.probe.discover(ctx, discoverTime); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, ok := errors.AsType[*wire.NotConnectedError](err); ok {
			return nil, err
		}
		return b.up.Do(ctx, x)
	}
	m, err := b.stateless.Do(ctx, x)
	if era := new(wire.OtherEraError); errors.As(err, &era) {
		b.probe.forget() // the server's era has changed
		if x.Request.Method == mcp.MethodToolsCall {
			// The refusal means that the server has not executed the call. Servers
			// may be wrong about that, so no call is sent twice.
			return nil, wire.ServerGone("the server does not speak protocol version %s any more; make the call again", mcp.LatestStateless)
		}
		return b.up.Do(ctx, x)
	}
	if err == nil && x.Request.Method == mcp.MethodDiscover {
		b.probe.introduced(m.Result)
		return bothEras(m)
	}
	return m, err
}

// bothEras replaces the supportedVersions of a DiscoverResult by all versions that the
// gateway supports: it translates those that the server does not support.
func bothEras(m *mcp.Message) (*mcp.Message, error) {
	if m.Result == nil {
		return m, nil
	}
	versions, err := json.Marshal(mcp.Versions())
	if err != nil {
		return nil, err
	}
	result, err := mcp.Set(m.Result, versions, "supportedVersions")
	if err != nil {
		return nil, wire.ServerGone("the server's answer to server/discover cannot be read: %v", err)
	}
	return mcp.NewResult(m.ID, result), nil
}

// Close ends all sessions and pending requests.
func (b *bridge) Close() error {
	b.up.Close()
	b.down.Close()
	err := b.sessions.Close()
	if b.stateless != nil {
		err = errors.Join(err, b.stateless.Close())
	}
	return err
}

// SetEvictor implements [exchange.Backend].
func (b *bridge) SetEvictor(evict func()) {
	b.sessions.SetEvictor(func() {
		if !b.up.Evict() {
			evict()
		}
	})
}

// Unresponsive implements [exchange.Backend].
func (b *bridge) Unresponsive(err error) {
	b.sessions.Unresponsive(err)
	if s, ok := b.stateless.(interface{ Unresponsive(error) }); ok {
		s.Unresponsive(err)
	}
}
