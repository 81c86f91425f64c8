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

// sessions is a transport's way to a server of the session era.
type sessions interface {
	// Open performs the handshake on behalf of client, who is of the session
	// era, and begins a session of its own.
	Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error)
	// Resume, SetEvictor and Unresponsive are of [exchange.Backend].
	Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error)
	SetEvictor(evict func())
	Unresponsive(err error)
	Close() error
}

// bridge is the [exchange.Backend] of a server. A client is served in its own
// era when the server speaks it, and through a translation when not:
// [translate.Down] and [translate.Up] are the two. Which eras the server speaks
// is found out when a client needs to know, by asking it (MCP 2026-07-28,
// Versioning, Backward Compatibility).
type bridge struct {
	sessions  sessions
	stateless wire.Stateless // nil when the transport does not exist in that era
	params    paramheader.Checks
	http      bool // modern is over HTTP, where requests have headers
	// asIs serves session clients in sessions only: --stateless.
	asIs  bool
	probe singleflight.Group
	// up serves modern clients in sessions.
	up *translate.Up
	// down serves session clients without any.
	down *translate.Down

	mu sync.Mutex
	// discovered is the server's DiscoverResult; nil when it is not known, or not
	// of the stateless era.
	discovered json.RawMessage
	refused    error // why it is not
	until      time.Time
	observed   observed
}

// eraTime is how long a server that does not speak the stateless era is not
// asked again whether it does.
const eraTime = 10 * time.Minute

// discoverTime bounds the wait for an answer to server/discover. A server of the
// session era may never give one.
const discoverTime = 10 * time.Second

// endpoints is the way to a server in each era.
type endpoints struct {
	sessions  sessions
	stateless wire.Stateless // nil when the transport does not exist in that era
	http      bool           // modern is over HTTP, where requests have headers
}

func newBridge(to endpoints, asIs bool, log *slog.Logger) *bridge {
	b := &bridge{sessions: to.sessions, stateless: to.stateless, http: to.http, asIs: asIs}
	b.params.Log = log
	b.up, b.down = translate.NewUp(b.begin, log), translate.NewDown(to.stateless, to.http, b.refusesStateless, b.forget, log)
	return b
}

// begin begins a session at the server, and notes what that says of it.
func (b *bridge) begin(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.sessions.Open(ctx, client, session)
	b.opened(client.Version, conn, err)
	return conn, err
}

// Open begins a session for a client of the session era.
func (b *bridge) Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
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
	// A server without sessions cannot send its clients requests in this era. One that
	// refuses initialize, or answers it without a version of this era, may support the
	// other era only, and may have been started just now.
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

// withoutSessions begins a session for a client that the server knows nothing of.
func (b *bridge) withoutSessions(info json.RawMessage, client *exchange.Client, session exchange.Peer) (exchange.Conn, error) {
	conn, err := b.down.Open(info, client, session)
	if err != nil {
		b.forget() // it says something else the next time, perhaps
	}
	return conn, err
}

// sessionless: the server took initialize, but keeps no session.
func sessionless(conn exchange.Conn) bool {
	c, ok := conn.(interface{ HasSession() bool })
	return ok && !c.HasSession()
}

// Do plays out a request of a client of the stateless era.
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

// comparesHeaders: the server speaks the stateless era over HTTP, and so compares the
// Mcp-Param-* headers itself. Whether it does is found out before the first call.
func (b *bridge) comparesHeaders(ctx context.Context) bool {
	if !b.http {
		return false
	}
	_, err := b.discover(ctx, discoverTime)
	return err == nil
}

// play plays out a request of a client of the stateless era in the server's.
func (b *bridge) play(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	for again := true; ; again = false {
		m, err := b.playOnce(ctx, x)
		var rpc *mcp.Error
		if !again || !errors.As(err, &rpc) || rpc.Code != mcp.CodeSessionNotFound {
			return m, err
		}
		// The server has lost the session, and may be of another era since. The client
		// knows of none, so it is ours to begin another; but a call that may have been
		// worked on is never made twice.
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
		b.forget() // it has changed
		if x.Request.Method == mcp.MethodToolsCall {
			// Its refusal says that it has not worked on the call; but no call is
			// made twice on the word of a server.
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

// bothEras adds the versions that the server does not speak and we do.
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

// discover returns the server's DiscoverResult, or why it is not of the
// stateless era.
func (b *bridge) discover(ctx context.Context, patience time.Duration) (json.RawMessage, error) {
	if info, known, err := b.known(); known {
		return info, err
	}
	return wire.Shared(ctx, &b.probe, "", patience, func(ctx context.Context) (json.RawMessage, error) {
		if info, known, err := b.known(); known {
			return info, err
		}
		info, err := b.sendDiscover(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.discovered, b.refused, b.until = info, err, time.Now().Add(eraTime)
		b.observed.implementation(info, "_meta", mcp.MetaServerInfo)
		if err != nil && !wire.IsRefusal(err) && ctx.Err() == nil {
			b.until = time.Time{} // it could not be asked: that says nothing
		}
		return info, err
	})
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

// forget lets the server be probed again.
func (b *bridge) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discovered, b.refused = nil, nil
}

// forgetRefusal: the server's word that it is of the session era is not good any more.
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

// discoverIn sends server/discover in one version.
func (b *bridge) discoverIn(ctx context.Context, v mcp.Version) (*mcp.Message, error) {
	client := wire.OwnClient()
	client.Version = v
	params, err := wire.NewClientMeta(client).Into(nil, "")
	if err != nil {
		return nil, err
	}
	return b.stateless.Do(ctx, &exchange.Exchange{
		Client:  client,
		Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodDiscover, Params: params},
	})
}

// Close ends everything.
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
