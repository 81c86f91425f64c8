package backend

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A server that starts anew may be of the other era: somebody has updated it. Who is
// served in the era that it had cannot be from then on, and is told to begin again, as
// after any restart.

// errTurned ends the sessions of clients that a server without sessions had.
var errTurned = &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "the server keeps sessions since it started anew, and does not know this one; initialize again"}

// turned reports whether the server, which was of the stateless era, is of the other
// one now. That it refuses a request says little, since whatever stands in front of it
// may do that; this says that it does not answer server/discover, and takes initialize.
func (b *bridge) turned(ctx context.Context, client *exchange.Client) bool {
	b.forget()
	if _, err := b.discover(ctx, discoverTime); err == nil || !refusedByServer(err) {
		return false
	}
	_, err := together(ctx, &b.turning, "", openTime, func(ctx context.Context) (any, error) {
		conn, err := b.sessions.Open(ctx, client, noPeer{})
		if err != nil {
			return nil, err
		}
		return nil, conn.Close()
	})
	return err == nil
}

// lostBy ends the session when err, with which the server refused a request, means
// that it is of the other era now.
func (c *sessionConn) lostBy(ctx context.Context, err error) error {
	var era *otherEra
	if !errors.As(err, &era) || !c.clients.turned(ctx, c.client) {
		return err
	}
	c.stop(errTurned)
	return errTurned
}

// lostBy is the same for a refusal of what the sessions have in common.
func (r *room) lostBy(err error) {
	r.mu.Lock()
	members := slices.Collect(maps.Keys(r.members))
	r.mu.Unlock()
	if len(members) == 0 || !errors.Is(members[0].lostBy(r.ctx, err), errTurned) {
		return
	}
	for _, c := range members {
		c.stop(errTurned)
	}
}

// isLostBy reports whether a refusal means that the server does not have the session,
// or not any more: it has forgotten it, or speaks the stateless era only.
func (c *streamableConn) isLostBy(f *refusal) bool {
	return c.hasSession() && f.meansSessionGone() || f.meansNoSessions()
}
