package translate

import (
	"context"
	"errors"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// errEraChanged ends the sessions at a server that no longer supports the stateless era,
// for example after an update of the server.
var errEraChanged = &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "the server no longer supports the protocol version of this session; initialize again"}

// send sends one request to the server. If the server refuses it as one of the session era
// does, send clears the cached era, and the server is probed before the next request.
func (s *Down) send(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	answer, err := s.stateless.Do(ctx, x)
	if _, ok := errors.AsType[*wire.OtherEraError](err); ok {
		s.forget()
	}
	return answer, err
}

// endIfRefused ends the sessions if the server no longer supports the stateless era, and
// reports whether that is so.
func (r *principalSession) endIfRefused() bool {
	if !r.clients.refused(r.callers.Attach(r.ctx)) {
		return false
	}
	for _, s := range r.fanout.All() {
		s.Owner.stop(errEraChanged)
	}
	return true
}
