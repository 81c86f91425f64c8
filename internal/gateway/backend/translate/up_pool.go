package translate

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file is where modernClients keeps its sessions.

// clientKey is what clients must have in common to be served in one session.
type clientKey struct {
	principal, capabilities string // canonical JSON
}

// pool holds the sessions for clients of one kind. It is guarded by
// modernClients.mu.
type pool struct {
	shared *upSession
	idle   []*upSession // sessions of one request at a time, not in use now
	hub    *listeners
	users  int       // requests that have a session, or wait for one to be opened
	since  time.Time // since when there is none
}

// enter makes sure that there is a pool for the key, which stays until the caller
// leaves it. If there are too many for another one, it lets go the pool that has been
// unused for longest.
func (c *Up) enter(key clientKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return wire.ErrStopped
	}
	if len(c.pools) == 0 {
		c.sweeping.Go(c.sweep)
	}
	p := c.pools[key]
	if p == nil {
		if len(c.pools) >= maxPools && !c.letGoOldest() {
			return wire.ServerGone("clients of %d kinds are served already; try again later", maxPools)
		}
		p = &pool{hub: newListeners(c.log)}
		c.pools[key] = p
	}
	p.users++
	return nil
}

func (c *Up) leave(key clientKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pools[key]; p != nil { // else all were closed
		p.users--
		p.since = time.Now()
	}
}

// letGoOldest ends the pool that has been unused for longest, if there is one that is
// unused. The caller holds mu.
func (c *Up) letGoOldest() bool {
	var oldest *pool
	var oldestKey clientKey
	for key, p := range c.pools {
		if p.users == 0 && (oldest == nil || p.since.Before(oldest.since)) {
			oldest, oldestKey = p, key
		}
	}
	if oldest == nil {
		return false
	}
	delete(c.pools, oldestKey)
	// Nobody who is served now waits for a server to take note of it.
	c.sweeping.Go(func() { closeUpSessions(oldest.sessions()) })
	return true
}

// sessions are the idle ones of p, and the shared one.
func (p *pool) sessions() []*upSession {
	if p.shared == nil {
		return p.idle
	}
	return append(slices.Clip(p.idle), p.shared)
}

// closeUpSessions ends sessions, at the same time: a server may take long to take note of
// each.
func closeUpSessions(all []*upSession) {
	var closing sync.WaitGroup
	for _, s := range all {
		closing.Go(func() { _ = s.Close() })
	}
	closing.Wait()
}

// takeShared returns the session that clients of one kind share.
func (c *Up) takeShared(ctx context.Context, key clientKey, client *exchange.Client) (*upSession, error) {
	for range maxTries {
		if s, ok := c.useShared(key); ok {
			return s, nil
		}
		if _, err := wire.Shared(ctx, &c.opening, key.principal+"\x00"+key.capabilities, wire.HandshakeTimeout, func(ctx context.Context) (any, error) {
			if err := c.enter(key); err != nil {
				return nil, err
			}
			defer c.leave(key)
			return nil, c.renewShared(ctx, key, client)
		}); err != nil {
			return nil, err
		}
	}
	return nil, wire.ServerGone("the server ends its sessions as soon as they have begun; try again later")
}

// maxTries bounds how often a request tries to get into a session that ends at once.
const maxTries = 3

// renewShared opens a session for a kind of clients, unless there is one by now.
func (c *Up) renewShared(ctx context.Context, key clientKey, client *exchange.Client) error {
	c.mu.Lock()
	p := c.pools[key]
	there := p != nil && p.shared.alive() // nil: all were closed
	c.mu.Unlock()
	if there {
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
	if c.closed {
		c.mu.Unlock()
		_ = s.Close()
		return wire.ErrStopped
	}
	before := p.shared
	p.shared = s
	over := before != nil && before.users == 0
	c.mu.Unlock()
	if over { // otherwise its last user closes it
		_ = before.Close()
	}
	return nil
}

func (c *Up) useShared(key clientKey) (*upSession, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[key]
	if p == nil || !p.shared.alive() {
		return nil, false
	}
	p.shared.users++
	return p.shared, true
}

// open begins a session on behalf of client.
func (c *Up) open(ctx context.Context, key clientKey, client *exchange.Client) (*upSession, error) {
	c.mu.Lock()
	p := c.pools[key]
	c.mu.Unlock()
	if p == nil {
		return nil, wire.ErrStopped
	}
	peer := &unattributed{listeners: p.hub}
	conn, err := c.begin(ctx, &exchange.Client{
		Principal: client.Principal, Version: mcp.LatestSession, OneProcess: true,
		// The connection outlives the request, whose body these are parts of.
		Capabilities: bytes.Clone(client.Capabilities), Info: bytes.Clone(client.Info),
	}, peer)
	if err != nil {
		return nil, err
	}
	s, err := newUpSession(conn, peer)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, wire.ErrStopped
	}
	return s, nil
}

// spend lets no request follow in a session for one at a time: what the server still
// asks or says there would be taken for the next one's.
func (c *Up) spend(s *upSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.spent = true
}

// put gives a session back.
func (c *Up) put(key clientKey, s *upSession) {
	c.mu.Lock()
	s.users--
	s.since = time.Now()
	keep := s.users > 0
	if p := c.pools[key]; !keep && !c.closed && p != nil && s.alive() {
		keep = p.shared == s
		if s.alone && !s.spent && len(p.idle) < maxIdle {
			p.idle, keep = append(p.idle, s), true
		}
	}
	c.mu.Unlock()
	if !keep {
		_ = s.Close()
	}
}

// sweep closes sessions that nobody has used for a while.
func (c *Up) sweep() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case now := <-tick.C:
			closeUpSessions(c.unused(now))
		}
	}
}

// unused takes out the sessions that nobody has used for too long by now, or lost.
func (c *Up) unused(now time.Time) []*upSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*upSession
	for key, p := range c.pools {
		for i, s := range p.idle {
			patience := idleTime
			if i == len(p.idle)-1 { // the last used, and the next to be
				patience = keptTime
			}
			if !s.alive() || now.Sub(s.since) > patience {
				out = append(out, s)
			}
		}
		p.idle = slices.DeleteFunc(p.idle, func(s *upSession) bool { return slices.Contains(out, s) })
		if s := p.shared; s != nil && s.users == 0 && (!s.alive() || now.Sub(s.since) > keptTime) {
			out = append(out, s)
			p.shared = nil
		}
		if p.shared == nil && len(p.idle) == 0 && p.users == 0 && len(c.pools) > 1 {
			delete(c.pools, key)
		}
	}
	return out
}

// Evict ends the session that has been unused for longest, if there is one that is,
// for somebody who waits for what it takes up at the server, such as a process.
func (c *Up) Evict() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest *upSession
	var of *pool
	for _, p := range c.pools {
		for _, s := range p.sessions() {
			if s.users == 0 && (oldest == nil || s.since.Before(oldest.since)) {
				oldest, of = s, p
			}
		}
	}
	if oldest == nil || c.closed {
		return false
	}
	if of.shared == oldest {
		of.shared = nil
	}
	of.idle = slices.DeleteFunc(of.idle, func(s *upSession) bool { return s == oldest })
	c.sweeping.Go(func() { _ = oldest.Close() })
	return true
}

// Close ends all sessions.
func (c *Up) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	close(c.stop)
	var all []*upSession
	for _, p := range c.pools {
		all = append(all, p.sessions()...)
	}
	c.pools = map[clientKey]*pool{}
	c.mu.Unlock()
	closeUpSessions(all)
	c.sweeping.Wait()
}

// Idle is the number of sessions that wait for their next request.
func (c *Up) Idle() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		n += len(p.idle)
	}
	return n
}
