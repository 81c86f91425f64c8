package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// modernClients serves clients of the stateless era at a server of the session
// era. Such a client has no session, so its requests are played out in sessions
// of ours: one for all clients that the server could not tell apart, and others
// for requests during which the server might ask (see [modernClients.do]).
type modernClients struct {
	sessions sessions
	log      *slog.Logger
	refused  func() // the server refused to begin a session
	opening  singleflight.Group
	sweeping sync.WaitGroup
	stop     chan struct{}

	mu     sync.Mutex
	closed bool
	pools  map[poolKey]*pool
}

// poolKey is what clients must have in common to be served in one session.
type poolKey struct {
	principal, capabilities string // canonical JSON
}

// pool holds the sessions for clients of one kind. It is guarded by
// modernClients.mu.
type pool struct {
	shared *served
	idle   []*served // sessions of one request at a time, not in use now
	hub    *hub
}

// served is one session at the server.
type served struct {
	gateway.Conn
	hub          *hub
	capabilities json.RawMessage // the server's
	introduction []byte          // members that name the server in every result
	watched      *watched

	mu    sync.Mutex
	level string // the log level that the server was given
	// leveling is held while the server is given another.
	leveling chan struct{}

	// Guarded by modernClients.mu.
	users int
	since time.Time
	alone bool // for one request at a time
	spent bool // a request had no answer, so that the server may still be at work
}

// maxAsking is how many requests, during which a server may ask, share a session:
// neither their number nor clients that do not come back must use up what a server
// may ask at a time (maxQuestions).
const maxAsking = maxQuestions / 4

// How long a session that serves no request is kept, and how often that is
// looked at.
const (
	servedTime  = 2 * time.Minute
	servedSweep = 15 * time.Second
	// maxIdle bounds the sessions of one request at a time that wait for the next.
	maxIdle = 8
	// maxPools bounds the kinds of clients that have sessions: a client may say
	// something else of itself with every request.
	maxPools = 256
)

func newModernClients(s sessions, log *slog.Logger) *modernClients {
	c := &modernClients{sessions: s, log: log, stop: make(chan struct{}), pools: map[poolKey]*pool{}}
	return c
}

// Do plays out a request of the stateless era in a session.
func (c *modernClients) Do(ctx context.Context, x *gateway.Exchange) (*mcp.Message, error) {
	for again := true; ; again = false {
		m, err := c.do(ctx, x)
		var rpc *mcp.Error
		if !again || !errors.As(err, &rpc) || rpc.Code != mcp.CodeSessionNotFound {
			return m, err
		}
		// The server has forgotten the session. The client knows of none, so it is
		// ours to begin another; but a call that may have been worked on is never
		// made twice.
		if x.Request.Method == mcp.MethodToolsCall {
			return nil, gone("the server has lost its session, and may or may not have worked on the call; check, then make it again")
		}
	}
}

func (c *modernClients) do(ctx context.Context, x *gateway.Exchange) (*mcp.Message, error) {
	capabilities, err := mcp.Canonical(x.Client.Capabilities)
	if err != nil {
		return nil, err
	}
	key := poolKey{x.Client.Principal, string(capabilities)}
	s, err := c.take(ctx, key, x)
	if err != nil {
		return nil, err
	}
	defer c.put(key, s)
	switch x.Request.Method {
	case mcp.MethodDiscover:
		return s.discover(x.Request.ID)
	case mcp.MethodSubscriptionsListen:
		return s.hub.listen(ctx, s, x)
	}
	m, err := s.play(ctx, x)
	if err != nil {
		c.spend(s)
	}
	return m, err
}

// take returns a session for the request. Clients that the server cannot ask
// share one. Where the server might, and its questions come on the one stream
// that everything comes on, nobody could tell to which of several requests a
// question belongs: then there is one request at a time in a session.
func (c *modernClients) take(ctx context.Context, key poolKey, x *gateway.Exchange) (*served, error) {
	mayAsk := false
	if isMultiRound(x.Request.Method) {
		_, mayShare, err := sharingOf(x.Client)
		if err != nil {
			return nil, err
		}
		mayAsk = !mayShare
	}
	switch {
	case !mayAsk:
		return c.takeShared(ctx, key, x.Client, 0)
	case c.tellsApart():
		return c.takeShared(ctx, key, x.Client, maxAsking)
	}
	c.mu.Lock()
	if p := c.pools[key]; p != nil {
		for len(p.idle) > 0 {
			s := p.idle[len(p.idle)-1]
			p.idle = p.idle[:len(p.idle)-1]
			if s.alive() {
				s.users++
				c.mu.Unlock()
				return s, nil
			}
		}
	}
	c.mu.Unlock()
	s, err := c.open(ctx, key, x.Client)
	if err != nil {
		return nil, err
	}
	s.users++
	s.alone = true
	return s, nil
}

// tellsApart: questions of the server come on the stream of the request they
// belong to.
func (c *modernClients) tellsApart() bool {
	_, ok := c.sessions.(*streamable)
	return ok
}

// takeShared returns the session that clients of one kind share. At most so many
// requests go into one; 0 is any number. Then there is another session for the
// next.
func (c *modernClients) takeShared(ctx context.Context, key poolKey, client *gateway.Client, most int) (*served, error) {
	for range maxTries {
		if s, ok := c.useShared(key, most); ok {
			return s, nil
		}
		opened := c.opening.DoChan(key.principal+"\x00"+key.capabilities, func() (any, error) {
			// Several may wait for it, so none of them can cancel it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTime)
			defer cancel()
			return nil, c.renewShared(ctx, key, client, most)
		})
		select {
		case r := <-opened:
			if r.Err != nil {
				return nil, r.Err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, gone("the server ends its sessions as soon as they have begun, or too many requests want one; try again later")
}

// maxTries bounds how often a request tries to get into a session that others
// fill, or that ends at once.
const maxTries = 100

// renewShared opens a session for a kind of clients, unless there is one with
// room by now.
func (c *modernClients) renewShared(ctx context.Context, key poolKey, client *gateway.Client, most int) error {
	c.mu.Lock()
	p := c.pools[key]
	room := p != nil && p.shared.hasRoom(most)
	c.mu.Unlock()
	if room {
		return nil
	}
	s, err := c.open(ctx, key, client)
	if err != nil {
		return err
	}
	if conn, ok := s.Conn.(interface{ Share() }); ok {
		conn.Share()
	}
	c.mu.Lock()
	p = c.poolOf(key)
	before := p.shared
	p.shared = s
	over := before != nil && before.users == 0
	c.mu.Unlock()
	if over { // otherwise its last user closes it
		_ = before.Close()
	}
	return nil
}

// openTime bounds the handshake of a shared session.
const openTime = time.Minute

func (c *modernClients) useShared(key poolKey, most int) (*served, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[key]
	if p == nil || !p.shared.hasRoom(most) {
		return nil, false
	}
	p.shared.users++
	return p.shared, true
}

// poolOf is called with mu held.
func (c *modernClients) poolOf(key poolKey) *pool {
	p := c.pools[key]
	if p == nil {
		p = &pool{}
		p.hub = newHub(c.log)
		c.pools[key] = p
	}
	return p
}

// makeRoom lets go the pool that has been unused for longest, if there are too
// many for another one. Its sessions are returned for the caller to close. It is
// called with mu held.
func (c *modernClients) makeRoom(key poolKey) (unused []*served, ok bool) {
	if c.pools[key] != nil || len(c.pools) < maxPools {
		return nil, true
	}
	var oldest *pool
	var oldestKey poolKey
	for k, p := range c.pools {
		// One without a shared session is being opened, or in use.
		if p.shared != nil && p.shared.users == 0 && p.hub.unused() && (oldest == nil || p.shared.since.Before(oldest.shared.since)) {
			oldest, oldestKey = p, k
		}
	}
	if oldest == nil {
		return nil, false
	}
	delete(c.pools, oldestKey)
	return append(oldest.idle, oldest.shared), true
}

// open begins a session on behalf of client.
func (c *modernClients) open(ctx context.Context, key poolKey, client *gateway.Client) (*served, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errStopped
	}
	if len(c.pools) == 0 {
		c.sweeping.Go(c.sweep)
	}
	unused, ok := c.makeRoom(key)
	if !ok {
		c.mu.Unlock()
		return nil, gone("clients of %d kinds are served already; try again later", maxPools)
	}
	peer := c.poolOf(key).hub
	c.mu.Unlock()
	for _, s := range unused {
		_ = s.Close()
	}
	conn, err := c.sessions.Open(ctx, &gateway.Client{
		Principal: client.Principal, Version: mcp.LatestSession,
		// The connection outlives the request, whose body these are parts of.
		Capabilities: bytes.Clone(client.Capabilities), Info: bytes.Clone(client.Info),
	}, peer)
	if err != nil {
		if refusedByServer(err) {
			c.refused()
		}
		return nil, err
	}
	s, err := newServed(conn, peer)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, errStopped
	}
	return s, nil
}

func newServed(conn gateway.Conn, h *hub) (*served, error) {
	s := &served{Conn: conn, hub: h, since: time.Now(), watched: newWatched(), leveling: make(chan struct{}, 1)}
	var err error
	if s.capabilities, _, err = mcp.Lookup(conn.ServerInfo(), "capabilities"); err != nil {
		return nil, gone("the server's answer to initialize cannot be read: %v", err)
	}
	info, found, err := mcp.Lookup(conn.ServerInfo(), "serverInfo")
	if err != nil {
		return nil, gone("the server's answer to initialize cannot be read: %v", err)
	}
	if found {
		s.introduction = append([]byte(`"`+mcp.MetaServerInfo+`":`), info...)
	}
	return s, nil
}

// hasRoom: a shared session may serve another request.
// It is called with the mutex of modernClients held.
func (s *served) hasRoom(most int) bool {
	return s != nil && s.alive() && (most == 0 || s.users < most)
}

func (s *served) alive() bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

// spend lets no request follow in a session for one at a time: what the server still
// asks or says there would be taken for the next one's.
func (c *modernClients) spend(s *served) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.spent = true
}

// put gives a session back.
func (c *modernClients) put(key poolKey, s *served) {
	c.mu.Lock()
	s.users--
	s.since = time.Now()
	p := c.pools[key]
	if c.closed || p == nil || !s.alone || s.spent || !s.alive() || len(p.idle) >= maxIdle {
		keep := !c.closed && p != nil && p.shared == s && s.alive()
		over := s.users == 0 && !keep
		c.mu.Unlock()
		if over {
			_ = s.Close()
		}
		return
	}
	if s.users == 0 {
		p.idle = append(p.idle, s)
	}
	c.mu.Unlock()
}

// sweep closes sessions that nobody has used for a while.
func (c *modernClients) sweep() {
	tick := time.NewTicker(servedSweep)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case now := <-tick.C:
			for _, s := range c.unused(now.Add(-servedTime)) {
				_ = s.Close()
			}
		}
	}
}

func (c *modernClients) unused(before time.Time) []*served {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*served
	for key, p := range c.pools {
		kept := p.idle[:0]
		for _, s := range p.idle {
			if s.since.Before(before) || !s.alive() {
				out = append(out, s)
			} else {
				kept = append(kept, s)
			}
		}
		p.idle = kept
		if s := p.shared; s != nil && s.users == 0 && (s.since.Before(before) || !s.alive()) {
			out = append(out, s)
			p.shared = nil
		}
		if p.shared == nil && len(p.idle) == 0 && p.hub.unused() && len(c.pools) > 1 {
			delete(c.pools, key)
		}
	}
	return out
}

// close ends all sessions.
func (c *modernClients) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	close(c.stop)
	var all []*served
	for _, p := range c.pools {
		all = append(all, p.idle...)
		if p.shared != nil {
			all = append(all, p.shared)
		}
	}
	c.pools = map[poolKey]*pool{}
	c.mu.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
	c.sweeping.Wait()
}
