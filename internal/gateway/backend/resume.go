package backend

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// Resume continues a session of the session era that an earlier gateway process began.
// An empty handle means that the server is of the stateless era: the session consists of
// the client's declarations only.
func (b *bridge) Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error) {
	if len(handle) > 0 {
		return b.sessions.Resume(ctx, client, handle, session)
	}
	if b.stateless == nil || b.asIs {
		return nil, exchange.ErrNotResumable
	}
	info, err := b.probe.discover(ctx, discoverTime)
	switch {
	case err == nil:
		return b.withoutSessions(ctx, info, client, session)
	case wire.IsRefusal(err):
		return nil, exchange.ErrNotResumable // the session was begun at a server of the stateless era
	default:
		return nil, err
	}
}
