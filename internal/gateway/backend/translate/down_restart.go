package translate

import (
	"context"
	"errors"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// errEraChanged ends the sessions of clients at a server that no longer supports the
// stateless era, which may be after an update.
var errEraChanged = &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "the server no longer supports the protocol version of this session; initialize again"}

// send sends one request to the server. After a refusal as of a server of the session era
// the server is probed again before the next request.
func (s *Down) send(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	answer, err := s.stateless.Do(ctx, x)
	if _, ok := errors.AsType[*wire.OtherEraError](err); ok {
		s.forget()
	}
	return answer, err
}

// endIfRefused ends the sessions if the server no longer supports the stateless era.
func (r *principalSession) endIfRefused() bool {
	if !r.clients.refused(r.ctx) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.members {
		c.stop(errEraChanged)
	}
	return true
}
