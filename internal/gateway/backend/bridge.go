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
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sessions is a transport's way to a server of the session era.
type sessions interface {
	// Open performs the handshake on behalf of client, who is of the session
	// era, and begins a session of its own.
	Open(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error)
	// Resume and SetEvictor are of [exchange.Backend].
	Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error)
	SetEvictor(evict func())
	Close() error
}

// modern is a transport's way to a server of the stateless era (MCP 2026-07-28).
type modern interface {
	// Do plays out a request whose params are of the stateless era already, with
	// a complete _meta. What comes back is the server's own response, with the
	// client's id, whatever its resultType. Notifications of the request go to
	// its Peer; the subscription ids in them are the client's too. Cancelling ctx
	// cancels the request at the server, in the way of the transport.
	//
	// The error is an [*otherEra] when the server is evidently not of this era
	// and has not worked on the request.
	Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error)
	Close() error
}

// bridge is the [exchange.Backend] of a server. A client is served in its own
// era when the server speaks it, and through a translation when not:
// [sessionClients] and [modernClients] are the two. Which eras the server speaks
// is found out when a client needs to know, by asking it (MCP 2026-07-28,
// Versioning, Backward Compatibility).
type bridge struct {
	sessions sessions
	modern   modern // nil when the transport does not exist in that era
	params   paramChecks
	// asIs serves session clients in sessions only: --stateless.
	asIs  bool
	probe singleflight.Group
	// turning finds out whether it keeps sessions now.
	turning singleflight.Group
	// clients serves modern clients in sessions.
	clients *modernClients
	// sessionClients serves session clients without any.
	sessionClients *sessionClients

	mu sync.Mutex
	// discovered is the server's DiscoverResult; nil when it is not known, or not
	// of the stateless era.
	discovered json.RawMessage
	refused    error // why it is not
	until      time.Time
	heard      heard
}

// eraTime is how long a server that does not speak the stateless era is not
// asked again whether it does.
const eraTime = 10 * time.Minute

// discoverTime bounds the wait for an answer to server/discover. A server of the
// session era may never give one.
const discoverTime = 10 * time.Second

func newBridge(s sessions, m modern, asIs bool, log *slog.Logger) *bridge {
	b := &bridge{sessions: s, modern: m, asIs: asIs}
	b.params.log = log
	b.clients, b.sessionClients = newModernClients(b.begin, log), newSessionClients(m, log)
	b.sessionClients.turned = b.turned
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
	if b.modern == nil || b.asIs {
		return conn, err
	}
	switch {
	case err == nil && !sessionless(conn):
		return conn, nil
	case err != nil && !refusedByServer(err):
		return nil, err
	}
	// A server without sessions cannot ask its clients anything in this era; one
	// that refuses initialize may be of the other, and only just have been started.
	patience := discoverTime
	if err != nil {
		patience = openTime
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
	conn, err := b.sessionClients.open(info, client, session)
	if err != nil {
		b.forget() // it says something else the next time, perhaps
	}
	return conn, err
}

// sessionless: the server took initialize, but keeps no session.
func sessionless(conn exchange.Conn) bool {
	c, ok := conn.(*streamableConn)
	return ok && !c.hasSession()
}

// Do plays out a request of a client of the stateless era.
func (b *bridge) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	method := x.Request.Method
	if method != mcp.MethodToolsCall && method != mcp.MethodToolsList || b.comparesHeaders(ctx) {
		return b.play(ctx, x)
	}
	if method == mcp.MethodToolsCall {
		if err := b.params.check(ctx, x, b.play); err != nil {
			return nil, err
		}
		return b.play(ctx, x)
	}
	m, err := b.play(ctx, x)
	if err != nil || m.Error != nil {
		return m, err
	}
	return b.params.of(x.Client.Principal).pass(m)
}

// comparesHeaders: the server speaks the stateless era over HTTP, and so compares the
// Mcp-Param-* headers itself. Whether it does is found out before the first call.
func (b *bridge) comparesHeaders(ctx context.Context) bool {
	if _, http := b.modern.(*modernHTTP); !http {
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
		b.doubt()
		if x.Request.Method == mcp.MethodToolsCall {
			return nil, gone("the server has lost its session, and may or may not have worked on the call; check, then make it again")
		}
	}
}

func (b *bridge) playOnce(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if b.modern == nil {
		return b.clients.Do(ctx, x)
	}
	if _, err := b.discover(ctx, discoverTime); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return b.clients.Do(ctx, x)
	}
	m, err := b.modern.Do(ctx, x)
	if era := new(otherEra); errors.As(err, &era) {
		b.forget() // it has changed
		if x.Request.Method == mcp.MethodToolsCall {
			// Its refusal says that it has not worked on the call; but no call is
			// made twice on the word of a server.
			return nil, gone("the server does not speak protocol version %s any more; make the call again", mcp.LatestStateless)
		}
		return b.clients.Do(ctx, x)
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
		return nil, gone("the server's answer to server/discover cannot be read: %v", err)
	}
	return mcp.NewResult(m.ID, result), nil
}

// discover returns the server's DiscoverResult, or why it is not of the
// stateless era.
func (b *bridge) discover(ctx context.Context, patience time.Duration) (json.RawMessage, error) {
	if info, known, err := b.known(); known {
		return info, err
	}
	return together(ctx, &b.probe, "", patience, func(ctx context.Context) (json.RawMessage, error) {
		if info, known, err := b.known(); known {
			return info, err
		}
		info, err := b.ask(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.discovered, b.refused, b.until = info, err, time.Now().Add(eraTime)
		b.heard.implementation(info, "_meta", mcp.MetaServerInfo)
		if err != nil && !refusedByServer(err) && ctx.Err() == nil {
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

func (b *bridge) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discovered, b.refused = nil, nil
}

// doubt: the server's word that it is of the session era is not good any more.
func (b *bridge) doubt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = nil
}

// ask sends server/discover.
func (b *bridge) ask(ctx context.Context) (json.RawMessage, error) {
	answer, err := b.modern.Do(ctx, &exchange.Exchange{
		Client:  ourself(),
		Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodDiscover, Params: json.RawMessage(`{"_meta":{` + string(introduce(ourself())) + `}}`)},
	})
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, &otherEra{answer.Error}
	}
	supported, ok := versionsIn(answer.Result, "supportedVersions")
	if !ok {
		return nil, &otherEra{gone("the server answered server/discover with something else")}
	}
	if !slices.Contains(supported, mcp.LatestStateless) {
		return nil, &otherEra{gone("the server speaks no version of the stateless era that we do")}
	}
	return answer.Result, nil
}

// Close ends everything.
func (b *bridge) Close() error {
	b.clients.close()
	b.sessionClients.close()
	err := b.sessions.Close()
	if b.modern != nil {
		err = errors.Join(err, b.modern.Close())
	}
	return err
}

// SetEvictor implements [exchange.Backend].
func (b *bridge) SetEvictor(evict func()) {
	b.sessions.SetEvictor(func() {
		if !b.clients.makeRoom() {
			evict()
		}
	})
}
