package backend

import (
	"bytes"
	"context"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file is where modernClients keeps its sessions.

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

// takeShared returns the session that clients of one kind share.
func (c *modernClients) takeShared(ctx context.Context, key poolKey, client *gateway.Client) (*served, error) {
	for range maxTries {
		if s, ok := c.useShared(key); ok {
			return s, nil
		}
		if _, err := together(ctx, &c.opening, key.principal+"\x00"+key.capabilities, openTime, func(ctx context.Context) (any, error) {
			return nil, c.renewShared(ctx, key, client)
		}); err != nil {
			return nil, err
		}
	}
	return nil, gone("the server ends its sessions as soon as they have begun; try again later")
}

// maxTries bounds how often a request tries to get into a session that ends at once.
const maxTries = 3

// renewShared opens a session for a kind of clients, unless there is one by now.
func (c *modernClients) renewShared(ctx context.Context, key poolKey, client *gateway.Client) error {
	c.mu.Lock()
	p := c.pools[key]
	there := p != nil && p.shared.alive()
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

func (c *modernClients) useShared(key poolKey) (*served, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[key]
	if p == nil || !p.shared.alive() {
		return nil, false
	}
	p.shared.users++
	return p.shared, true
}

// poolOf is called with mu held.
func (c *modernClients) poolOf(key poolKey) *pool {
	p := c.pools[key]
	if p == nil {
		p = &pool{hub: newHub(c.log)}
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
	conn, err := c.begin(ctx, &gateway.Client{
		Principal: client.Principal, Version: mcp.LatestSession,
		// The connection outlives the request, whose body these are parts of.
		Capabilities: bytes.Clone(client.Capabilities), Info: bytes.Clone(client.Info),
	}, peer)
	if err != nil {
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
