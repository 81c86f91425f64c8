package backend

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// Resume continues a session of the session era that a process before us began.
// Without a handle it is one that a server of the stateless era knows nothing of:
// what there is to it is the client's declarations.
func (b *bridge) Resume(ctx context.Context, client *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error) {
	if len(handle) > 0 {
		return b.sessions.Resume(ctx, client, handle, session)
	}
	if b.stateless == nil || b.asIs {
		return nil, exchange.ErrNotResumable
	}
	info, err := b.discover(ctx, discoverTime)
	switch {
	case err == nil:
		return b.withoutSessions(info, client, session)
	case wire.IsRefusal(err):
		return nil, exchange.ErrNotResumable // it was another server then
	default:
		return nil, err
	}
}
