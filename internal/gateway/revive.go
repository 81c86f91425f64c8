package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
)

// principalOf names who sent r; nothing authenticates yet.
func principalOf(*http.Request) string { return "" }

// revive takes up the session with the id, which another gateway with our key
// began, or returns errSessionOver. Whoever asks for it at the same time gets the
// same one.
func (g *Gateway) revive(ctx context.Context, id, principal string) (*session, error) {
	t, ok := g.redeem(id, principal)
	if !ok || !g.canRevive(t, time.Now()) {
		return nil, errSessionOver
	}
	// Several may wait for it, so none of them can cancel it.
	return awaited(ctx, g.reviving.DoChan(id, func() (any, error) { return g.takeUp(id, principal, t) }))
}

// awaited is the session that others may wait for too.
func awaited(ctx context.Context, made <-chan singleflight.Result) (*session, error) {
	select {
	case r := <-made:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*session), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// canRevive: not what we began ourselves and is not there any more.
func (g *Gateway) canRevive(t *ticket, now time.Time) bool {
	age := now.Sub(t.issued)
	return t.revivable && t.issuer != g.issuer && age < reviveAge
}

func (g *Gateway) takeUp(id, principal string, t *ticket) (*session, error) {
	if !g.calls.enter() {
		return nil, errStopping
	}
	defer g.calls.leave()
	if s := g.find(id, principal); s != nil {
		return s, nil
	}
	if g.sessions.isBuried(t.serial) {
		return nil, errSessionOver
	}
	s := g.newSession(id)
	s.principal, s.serial, s.revived = principal, t.serial, true
	s.resumable, s.past.total = true, &g.sessions.past
	s.client = &exchange.Client{Principal: principal, Version: t.version, Capabilities: t.capabilities, Info: t.info}
	// A late answer to a question of the gateway before us answers none of ours.
	s.asks.last = time.Now().UnixMicro()
	conn, err := g.cfg.Backend.Resume(g.ctx, s.client, t.handle, s)
	if err == nil {
		s.version, err = agreed(conn)
	}
	if err != nil {
		s.end(errSessionOver) // the server may have spoken to it
	}
	switch {
	case errors.Is(err, exchange.ErrNotResumable):
		return nil, errSessionOver
	case err != nil:
		g.release(conn)
		if cause := context.Cause(g.ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if err := g.enroll(s); err != nil {
		return nil, err
	}
	g.log.Info("a session goes on that began before the gateway did")
	return s, nil
}
