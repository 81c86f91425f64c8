package backend

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// A server that starts anew may be of the other era: somebody has updated it. Who is
// served in the era that it had cannot be from then on, and is told to begin again, as
// after any restart.

// eraChanged reports whether the server, which was of the stateless era, is of the other
// one now. That it refuses a request says little, since whatever stands in front of it
// may do that; this says that it does not answer server/discover, and takes initialize.
func (b *bridge) eraChanged(ctx context.Context, client *exchange.Client) bool {
	b.forget()
	if _, err := b.discover(ctx, discoverTime); err == nil || !wire.IsRefusal(err) {
		return false
	}
	_, err := wire.Shared(ctx, &b.reopening, "", wire.HandshakeTimeout, func(ctx context.Context) (any, error) {
		conn, err := b.sessions.Open(ctx, client, wire.NoPeer{})
		if err != nil {
			return nil, err
		}
		return nil, conn.Close()
	})
	return err == nil
}
