package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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
	probe singleflight.Group
	// up serves stateless clients by sessions at the server.
	up *translate.Up
	// down serves session clients by a server without sessions.
	down *translate.Down

	mu sync.Mutex
	// discovered is the server's DiscoverResult; nil if server/discover was not sent or
	// failed.
	discovered json.RawMessage
	refused    error // of the last server/discover
	until      time.Time
	silent     bool // there was no response to the last server/discover in time
	observed   observed
}

// eraTime is how long server/discover is not sent again to a server that refused it or
// did not answer it.
const eraTime = 10 * time.Minute

// discoverTime bounds the wait for an answer to server/discover. A server of the
// session era may never send one.
const discoverTime = 10 * time.Second

// endpoints holds the transports to one server, by era.
type endpoints struct {
	sessions  sessions
	stateless wire.Stateless // nil when the transport does not exist in that era
	http      bool           // stateless is over HTTP, where requests have headers
}

func newBridge(to endpoints, asIs bool, log *slog.Logger) *bridge {
	b := &bridge{sessions: to.sessions, stateless: to.stateless, http: to.http, asIs: asIs}
	b.params.Log = log
	b.up, b.down = translate.NewUp(b.begin, log), translate.NewDown(to.stateless, to.http, b.refusesStateless, b.forget, log)
	return b
}

// begin begins a session at the server and records the outcome in b.observed.
func (b *bridge) begin(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.sessions.Open(ctx, client, session)
	b.opened(client.Version, conn, err)
	return conn, err
}

// Open begins a session for a client of the session era. For the gateway's own session over
// HTTP it sends server/discover before initialize: a server that supports the stateless era
// only must not receive initialize (MCP 2026-07-28, Versioning, Backward Compatibility). A
// client's session begins with initialize, because many servers of both eras list versions
// of the stateless era only in their DiscoverResult.
func (b *bridge) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	if client.LivenessCheck && b.http && !b.asIs {
		info, err := b.rediscover(ctx)
		switch {
		case err == nil && !wire.ListsSessions(info):
			return b.withoutSessions(info, client, session)
		case err != nil && (ctx.Err() != nil || b.mayBeStateless(err)):
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
	info, discoverErr := b.discover(ctx, patience)
	if discoverErr != nil {
		return conn, err
	}
	if conn != nil {
		_ = conn.Close()
	}
	return b.withoutSessions(info, client, session)
}

// withoutSessions begins a session that exists in the gateway only: the server is of the
// stateless era. info is its DiscoverResult.
func (b *bridge) withoutSessions(info json.RawMessage, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.down.Open(info, client, session)
	if err != nil {
		b.forget() // the next DiscoverResult may be valid
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
		return b.play(ctx, x)
	}
	if method == mcp.MethodToolsCall {
		if err := b.params.Check(ctx, x, b.play); err != nil {
			return nil, err
		}
		return b.play(ctx, x)
	}
	m, err := b.play(ctx, x)
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
	_, err := b.discover(ctx, discoverTime)
	return err == nil
}

// play sends the request of a client of the stateless era in the server's era. It sends
// it a second time in a new session if the server has lost the session.
func (b *bridge) play(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	for again := true; ; again = false {
		m, err := b.playOnce(ctx, x)
		var rpc *mcp.Error
		if !again || !errors.As(err, &rpc) || rpc.Code != mcp.CodeSessionNotFound {
			return m, err
		}
		// The server has lost the session and may be of another era by now. The client
		// has no session, so the gateway begins a new one. A tools/call is never sent
		// twice: the server may have executed it.
		b.forgetRefusal()
		if x.Request.Method == mcp.MethodToolsCall {
			return nil, wire.ServerGone("the server has lost its session, and may or may not have worked on the call; check, then make it again")
		}
	}
}

func (b *bridge) playOnce(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if b.stateless == nil {
		return b.up.Do(ctx, x)
	}
	if _, err := b.discover(ctx, discoverTime); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return b.up.Do(ctx, x)
	}
	m, err := b.stateless.Do(ctx, x)
	if era := new(wire.OtherEraError); errors.As(err, &era) {
		b.forget() // the server's era has changed
		if x.Request.Method == mcp.MethodToolsCall {
			// The refusal means that the server has not executed the call. Servers
			// may be wrong about that, so no call is sent twice.
			return nil, wire.ServerGone("the server does not speak protocol version %s any more; make the call again", mcp.LatestStateless)
		}
		return b.up.Do(ctx, x)
	}
	if err == nil && x.Request.Method == mcp.MethodDiscover {
		b.introduced(m.Result)
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

// discover returns the server's DiscoverResult, or the reason why the server is not of
// the stateless era. It sends server/discover, bounded by patience, unless the outcome is
// cached.
func (b *bridge) discover(ctx context.Context, patience time.Duration) (json.RawMessage, error) {
	if info, known, err := b.known(); known {
		return info, err
	}
	return wire.Shared(ctx, &b.probe, "", patience, func(ctx context.Context) (json.RawMessage, error) {
		if info, known, err := b.known(); known {
			return info, err
		}
		return b.sendDiscoverAndCache(ctx)
	})
}

// rediscover is discover, but a cached DiscoverResult is not used: the response shows that
// the server is there.
func (b *bridge) rediscover(ctx context.Context) (json.RawMessage, error) {
	if info, known, err := b.known(); known && info == nil {
		return nil, err
	}
	return wire.Shared(ctx, &b.probe, "", wire.ProbeTimeout, b.sendDiscoverAndCache)
}

// mayBeStateless reports whether a server may be of the stateless era although its response
// to server/discover is missing with err: the server was not reached, or is known to be of
// that era.
func (b *bridge) mayBeStateless(err error) bool {
	if _, ok := errors.AsType[*wire.NotConnectedError](err); ok {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.discovered != nil
}

// sendDiscoverAndCache sends server/discover and caches what the server responded. The
// outcome is not cached if there was no response of the server.
func (b *bridge) sendDiscoverAndCache(ctx context.Context) (json.RawMessage, error) {
	info, err := b.sendDiscover(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && !wire.IsRefusal(err) {
		if b.silent = ctx.Err() != nil; b.silent {
			err = errSilent
		}
		return nil, err
	}
	b.discovered, b.refused, b.until, b.silent = info, err, time.Now().Add(eraTime), false
	b.observed.implementation(info, "_meta", mcp.MetaServerInfo)
	return info, err
}

func (b *bridge) known() (info json.RawMessage, known bool, refused error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.discovered, b.discovered != nil || b.refused != nil && time.Now().Before(b.until), b.refused
}

// refusesStateless reports whether the server refused server/discover.
func (b *bridge) refusesStateless(ctx context.Context) bool {
	_, err := b.discover(ctx, discoverTime)
	return err != nil && wire.IsRefusal(err)
}

// forget discards the result of server/discover, so that it is sent again.
func (b *bridge) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discovered, b.refused = nil, nil
}

// forgetRefusal discards the refusal of server/discover: the server may support the
// stateless era by now.
func (b *bridge) forgetRefusal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = nil
}

// sendDiscover sends server/discover, and once more when the server refuses the version
// and lists one that the gateway supports (MCP 2026-07-28, Versioning, Protocol Version
// Negotiation).
func (b *bridge) sendDiscover(ctx context.Context) (json.RawMessage, error) {
	answer, err := b.discoverIn(ctx, mcp.LatestStateless)
	if err == nil && answer.Error != nil {
		listed, _ := wire.SupportedVersions(answer.Error)
		for _, v := range mcp.StatelessVersions() {
			if slices.Contains(listed, v) {
				answer, err = b.discoverIn(ctx, v)
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, &wire.OtherEraError{Err: answer.Error}
	}
	supported, ok := wire.VersionsIn(answer.Result, "supportedVersions")
	if !ok {
		return nil, &wire.OtherEraError{Err: wire.ServerGone("the server answered server/discover with something else")}
	}
	if !slices.Contains(supported, mcp.LatestStateless) {
		return nil, &wire.OtherEraError{Err: wire.ServerGone("the server speaks no version of the stateless era that we do")}
	}
	return answer.Result, nil
}

// discoverIn sends server/discover in version v.
func (b *bridge) discoverIn(ctx context.Context, v mcp.Version) (*mcp.Message, error) {
	x, err := wire.DiscoverRequest(v)
	if err != nil {
		return nil, err
	}
	return b.stateless.Do(ctx, x)
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
