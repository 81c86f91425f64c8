package translate

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Up serves clients of the stateless era at a server of the session
// era. Such a client has no session, so its requests are played out in sessions
// of ours: one for all clients that the server could not tell apart, and others
// for requests during which the server might ask (see [Up.take]).
type Up struct {
	begin    opener
	log      *slog.Logger
	opening  singleflight.Group
	sweeping sync.WaitGroup
	stop     chan struct{}

	mu     sync.Mutex
	closed bool
	pools  map[clientKey]*pool
}

// opener is as sessions.Open.
type opener func(ctx context.Context, client *exchange.Client, session exchange.Peer) (exchange.Conn, error)

// upSession is one session at the server.
type upSession struct {
	exchange.Conn
	hub          *listeners
	unattributed *unattributed   // its peer
	capabilities json.RawMessage // the server's
	introduction []byte          // members that name the server in every result
	watched      *watchCounts

	// level is the log level that the server was given, "" for none. A session in which
	// it is given one serves one request at a time.
	level  string
	unsure bool // the server did not take a level in time, and may still be at work on it

	// Guarded by modernClients.mu.
	users int
	since time.Time
	alone bool // for one request at a time
	spent bool // a request had no answer, so that the server may still be at work
}

// How long a session that serves no request is kept, and how often that is
// looked at.
const (
	idleTime = 2 * time.Minute
	// keptTime is for the one that was used last: many servers of this era keep what
	// they are told in memory, or a browser open, for as long as the session lasts.
	keptTime      = 30 * time.Minute
	sweepInterval = 15 * time.Second
	// maxIdle bounds the sessions of one request at a time that wait for the next, of
	// each kind of clients.
	maxIdle = 32
	// maxPools bounds the kinds of clients that have sessions: a client may say
	// something else of itself with every request.
	maxPools = 256
)

// NewUp serves clients in sessions that begin opens.
func NewUp(begin opener, log *slog.Logger) *Up {
	return &Up{begin: begin, log: log, stop: make(chan struct{}), pools: map[clientKey]*pool{}}
}

// Do plays out a request of the stateless era in a session.
func (c *Up) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	capabilities, err := mcp.Canonical(x.Client.Capabilities)
	if err != nil {
		return nil, err
	}
	key := clientKey{x.Client.Principal, string(capabilities)}
	if err := c.enter(key); err != nil {
		return nil, err
	}
	defer c.leave(key)
	switch x.Request.Method {
	case mcp.MethodDiscover, mcp.MethodSubscriptionsListen:
		return c.watch(ctx, key, x)
	}
	level, err := mcp.LogLevel(x.Request.Params)
	if err != nil {
		return nil, err
	}
	s, err := c.take(ctx, key, x, level != "")
	if err != nil {
		return nil, err
	}
	defer c.put(key, s)
	m, err := s.play(ctx, x, level)
	if err != nil || s.unsure {
		c.spend(s)
	}
	return m, err
}

// watch answers what is about the server and not for it.
func (c *Up) watch(ctx context.Context, key clientKey, x *exchange.Exchange) (*mcp.Message, error) {
	s, err := c.takeShared(ctx, key, x.Client)
	if err != nil {
		return nil, err
	}
	defer c.put(key, s)
	if x.Request.Method == mcp.MethodDiscover {
		return s.discover(x.Request.ID)
	}
	return s.hub.listen(ctx, s, x)
}

// take returns a session for the request. Clients that the server cannot tell apart
// share one. A request during which the server may ask, or that wants its log, has a
// session for itself until it is answered: many servers ask and log on the session's
// own stream, or have only that, and nobody could tell what is about which request.
// What else its client wants to know is best asked where it left something.
func (c *Up) take(ctx context.Context, key clientKey, x *exchange.Exchange, logs bool) (*upSession, error) {
	asked, err := wire.AcceptsRequests(x.Client)
	if err != nil {
		return nil, err
	}
	if logs || asked && mcp.IsMultiRound(x.Request.Method) {
		return c.takeAlone(ctx, key, x.Client)
	}
	if asked {
		if s := c.takeIdle(key); s != nil {
			return s, nil
		}
	}
	return c.takeShared(ctx, key, x.Client)
}

// takeAlone returns a session that no other request is in.
func (c *Up) takeAlone(ctx context.Context, key clientKey, client *exchange.Client) (*upSession, error) {
	if s := c.takeIdle(key); s != nil {
		return s, nil
	}
	s, err := c.open(ctx, key, client)
	if err != nil {
		return nil, err
	}
	s.users, s.alone = 1, true
	return s, nil
}

// takeIdle returns a session that waits for the next request, nil for none.
func (c *Up) takeIdle(key clientKey) *upSession {
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
	}
	return nil
}

// newUpSession hears what the server says outside of the answers to requests, also when
// nobody subscribes: progress may come there too.
func newUpSession(conn exchange.Conn, a *unattributed) (*upSession, error) {
	s := &upSession{Conn: conn, hub: a.listeners, unattributed: a, since: time.Now(), watched: newWatchCounts()}
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

// alive: s may be nil, and is not alive then.
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
