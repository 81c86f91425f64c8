package translate

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Up serves clients of the stateless era at a server of the session era. Such a client has
// no session, so its requests are sent in sessions of the gateway's own. The clients that
// the server could not distinguish share one. A request during which the server may send
// requests of its own has a separate session (see [Up.acquire]).
type Up struct {
	begin    opener
	log      *slog.Logger
	opening  singleflight.Group
	sweeping sync.WaitGroup
	stop     chan struct{}

	mu     sync.Mutex
	closed bool
	pools  map[wire.ClientKey]*pool
}

// opener begins a session at the server, as [exchange.Backend] does with Open.
type opener func(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error)

// upSession is one session at the server.
type upSession struct {
	exchange.Conn
	changes      *upChanges
	unattributed *unattributed        // the session's peer
	capabilities json.RawMessage      // the server's
	introduction []byte               // member of _meta with the serverInfo, for every result
	resources    *subscribe.Resources // that listen requests subscribe to

	// level is the log level that was last set at the server, "" for none. A session in
	// which it is set serves one request at a time.
	level  string
	unsure bool // the server did not confirm a level in time and may still process it

	// Guarded by Up.mu.
	users int
	since time.Time // the last use
	alone bool      // for one request at a time
	spent bool      // not for further requests: the server may still process the last one
}

// Bounds on the sessions that serve no request. A sweep closes those that exceed their
// time.
const (
	idleTime = 2 * time.Minute
	// keptTime is for the shared session of a pool and for the idle session that was
	// used last: many servers of the session era keep state in memory, or a browser
	// open, for as long as the session exists.
	keptTime      = 30 * time.Minute
	sweepInterval = 15 * time.Second
	// maxIdle bounds the idle sessions of one pool.
	maxIdle = 32
	// maxPools bounds the pools: a client may declare other capabilities with every
	// request.
	maxPools = 256
)

// NewUp returns an Up that opens sessions with begin.
func NewUp(begin opener, log *slog.Logger) *Up {
	return &Up{begin: begin, log: log, stop: make(chan struct{}), pools: map[wire.ClientKey]*pool{}}
}

// Do sends a request of the stateless era in a session and returns the response.
func (c *Up) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	key, err := wire.KeyOf(x.Client)
	if err != nil {
		return nil, err
	}
	if err := c.enter(key); err != nil {
		return nil, err
	}
	defer c.leave(key)
	switch x.Request.Method {
	case mcp.MethodDiscover, mcp.MethodSubscriptionsListen:
		return c.watch(ctx, key, x)
	}
	level := x.Meta.LogLevel
	s, err := c.acquire(ctx, key, x, level != "")
	if err != nil {
		return nil, err
	}
	defer c.release(key, s)
	m, err := s.roundTrip(ctx, x, level)
	if err != nil || s.unsure {
		c.spend(s)
	}
	return m, err
}

// watch handles server/discover and subscriptions/listen, which the server does not
// support.
func (c *Up) watch(ctx context.Context, key wire.ClientKey, x *exchange.Exchange) (*mcp.Message, error) {
	s, err := c.acquireShared(ctx, key, x.Client)
	if err != nil {
		return nil, err
	}
	defer c.release(key, s)
	if x.Request.Method == mcp.MethodDiscover {
		return s.discover(x.Request.ID)
	}
	return s.changes.listen(ctx, s, x)
}

// acquire returns a session for the request. Clients that the server cannot distinguish share
// one. A request has a session for itself until its response if the server may send
// requests during it, or if it requests log messages: many servers send both on the
// session's own stream, where they cannot be attributed to one of several requests. The
// other requests of a client that accepts requests use an idle session if there is one: the
// server may keep state in it from an earlier request.
func (c *Up) acquire(ctx context.Context, key wire.ClientKey, x *exchange.Exchange, logs bool) (*upSession, error) {
	asked := key.AcceptsRequests()
	if logs || asked && mcp.IsMultiRound(x.Request.Method) {
		return c.acquireAlone(ctx, key, x.Client)
	}
	if asked {
		if s := c.acquireIdle(key); s != nil {
			return s, nil
		}
	}
	return c.acquireShared(ctx, key, x.Client)
}

// acquireAlone returns a session that serves no other request: an idle one or a new one.
func (c *Up) acquireAlone(ctx context.Context, key wire.ClientKey, client *exchange.Client) (*upSession, error) {
	if s := c.acquireIdle(key); s != nil {
		return s, nil
	}
	s, err := c.open(ctx, key, client)
	if err != nil {
		return nil, err
	}
	s.users, s.alone = 1, true
	return s, nil
}

// acquireIdle returns the idle session that was used last, nil for none. It closes idle
// sessions that the server has ended.
func (c *Up) acquireIdle(key wire.ClientKey) *upSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[key]
	for p != nil && len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if s.alive() {
			s.users++
			return s
		}
		// The caller's request must not wait until the session is closed. Close waits for
		// sweeping; it removes all pools before.
		c.sweeping.Go(func() { _ = s.Close() })
	}
	return nil
}

// newUpSession returns a session on conn. It listens to the session's own stream even
// without subscriptions: the server may send progress notifications there.
func newUpSession(conn exchange.Conn, a *unattributed) (*upSession, error) {
	s := &upSession{Conn: conn, changes: a.upChanges, unattributed: a, since: time.Now(), resources: subscribe.NewResources()}
	var err error
	if s.capabilities, _, err = mcp.Lookup(conn.InitializeResult(), "capabilities"); err != nil {
		return nil, wire.ServerGone("the server's answer to initialize cannot be read: %v", err)
	}
	info, found, err := mcp.Lookup(conn.InitializeResult(), "serverInfo")
	if err != nil {
		return nil, wire.ServerGone("the server's answer to initialize cannot be read: %v", err)
	}
	if found {
		s.introduction = append([]byte(`"`+mcp.MetaServerInfo+`":`), info...)
	}
	conn.Listen()
	return s, nil
}

// alive reports whether the session has not ended. It is false if s is nil.
func (s *upSession) alive() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}
