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

// This file holds the session pools of [Up].

// pool holds the sessions for clients with the same key. It is guarded by Up.mu.
type pool struct {
	shared  *upSession
	idle    []*upSession // sessions for one request at a time that serve none, last used last
	changes *upChanges
	users   int       // requests that have a session, or wait for one to be opened
	since   time.Time // the end of the last of them
}

// enter creates the pool for the key if it is missing. The pool stays until the caller
// calls leave. To stay within [maxPools], enter removes the pool that has been unused for
// longest. It fails if all are in use, and after Close.
func (c *Up) enter(key wire.ClientKey) error {
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
		p = &pool{changes: &upChanges{log: c.log}}
		c.pools[key] = p
	}
	p.users++
	return nil
}

func (c *Up) leave(key wire.ClientKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pools[key]; p != nil { // nil after Close
		p.users--
		p.since = time.Now()
	}
}

// letGoOldest removes the pool that has been unused for longest, and closes its sessions.
// It returns false if all pools are in use. The caller holds mu.
func (c *Up) letGoOldest() bool {
	var oldest *pool
	var oldestKey wire.ClientKey
	for key, p := range c.pools {
		if p.users == 0 && (oldest == nil || p.since.Before(oldest.since)) {
			oldest, oldestKey = p, key
		}
	}
	if oldest == nil {
		return false
	}
	delete(c.pools, oldestKey)
	// The caller's request must not wait until the server has ended the sessions.
	c.sweeping.Go(func() { closeUpSessions(oldest.sessions()) })
	return true
}

// sessions returns the idle sessions of p and the shared one.
func (p *pool) sessions() []*upSession {
	if p.shared == nil {
		return p.idle
	}
	return append(slices.Clip(p.idle), p.shared)
}

// closeUpSessions closes sessions concurrently: a server may take long to end each.
func closeUpSessions(all []*upSession) {
	var closing sync.WaitGroup
	for _, s := range all {
		closing.Go(func() { _ = s.Close() })
	}
	closing.Wait()
}

// acquireShared returns the session that clients with the same key share. It opens one if
// there is none.
func (c *Up) acquireShared(ctx context.Context, key wire.ClientKey, client *exchange.Client) (*upSession, error) {
	for range maxTries {
		if s, ok := c.useShared(key); ok {
			return s, nil
		}
		if _, err := wire.Shared(ctx, &c.opening, key.Principal+"\x00"+key.Capabilities+"\x00"+key.Info, wire.HandshakeTimeout, func(ctx context.Context) (any, error) {
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

// maxTries bounds how often acquireShared opens a session that ends before it can be used.
const maxTries = 3

// renewShared opens the shared session for the key, unless another call has opened one.
func (c *Up) renewShared(ctx context.Context, key wire.ClientKey, client *exchange.Client) error {
	c.mu.Lock()
	p := c.pools[key]
	there := p != nil && p.shared.alive() // nil after Close
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
	if over { // otherwise release closes it after its last user
		_ = before.Close()
	}
	return nil
}

func (c *Up) useShared(key wire.ClientKey) (*upSession, bool) {
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
func (c *Up) open(ctx context.Context, key wire.ClientKey, client *exchange.Client) (*upSession, error) {
	c.mu.Lock()
	p := c.pools[key]
	c.mu.Unlock()
	if p == nil {
		return nil, wire.ErrStopped
	}
	peer := &unattributed{upChanges: p.changes}
	conn, err := c.begin(ctx, &exchange.Client{
		Principal: client.Principal, Version: mcp.LatestSession, OneProcess: true,
		// The session outlives the request. Clones do not keep the request's body in memory.
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

// spend prevents a session for one request at a time from serving another: what the server
// still sends in it would be attributed to the next request.
func (c *Up) spend(s *upSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.spent = true
}

// release ends one use of a session. It closes the session after the last use, unless the
// session is shared or becomes idle.
func (c *Up) release(key wire.ClientKey, s *upSession) {
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

// sweep closes unused sessions at intervals, until Close.
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

// unused removes and returns the sessions that have been unused for too long at the time
// now, and those that the server ended. It also removes unused pools without sessions, but
// not the last pool: enter starts a sweep whenever it creates the first.
func (c *Up) unused(now time.Time) []*upSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*upSession
	for key, p := range c.pools {
		for i, s := range p.idle {
			patience := idleTime
			if i == len(p.idle)-1 { // used last, and the one that acquireIdle returns next
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

// Evict closes the session that has been unused for longest, and returns false if there is
// none. It frees what the session occupies, such as a process, for a caller that waits for
// one. It does not wait until the session is closed.
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

// Close closes all sessions and rejects new requests.
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
	c.pools = map[wire.ClientKey]*pool{}
	c.mu.Unlock()
	closeUpSessions(all)
	c.sweeping.Wait()
}

// Idle returns the number of idle sessions, without shared ones.
func (c *Up) Idle() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		n += len(p.idle)
	}
	return n
}
