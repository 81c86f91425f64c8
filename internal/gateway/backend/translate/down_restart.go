package translate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// errEraChanged ends the sessions of clients that a server without sessions had.
var errEraChanged = &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "the server keeps sessions since it started anew, and does not know this one; initialize again"}

// lostBy ends the session when err, with which the server refused a request, means
// that it is of the other era now.
func (c *downConn) lostBy(ctx context.Context, err error) error {
	var era *wire.OtherEraError
	if !errors.As(err, &era) || !c.clients.eraChanged(ctx, c.client) {
		return err
	}
	c.stop(errEraChanged)
	return errEraChanged
}

// lostBy is the same for a refusal of what the sessions have in common.
func (r *principalSession) lostBy(err error) {
	r.mu.Lock()
	members := slices.Collect(maps.Keys(r.members))
	r.mu.Unlock()
	if len(members) == 0 || !errors.Is(members[0].lostBy(r.ctx, err), errEraChanged) {
		return
	}
	for _, c := range members {
		c.stop(errEraChanged)
	}
}
