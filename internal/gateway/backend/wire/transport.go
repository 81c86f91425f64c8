package wire

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Stateless sends requests to a server of the stateless era over one transport (MCP
// 2026-07-28).
type Stateless interface {
	// Do sends a request and returns the server's own response, of any resultType, with
	// the client's id. The params are of the stateless era, with a complete _meta.
	// Notifications of the request are sent to its Peer, with the client's subscription
	// id. Cancelling ctx cancels the request at the server, in the way of the transport.
	//
	// The error is an [*OtherEraError] when the server is evidently not of this era and
	// did not process the request.
	Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error)
	Close() error
}

// AcceptsRequests reports whether client declared a capability that lets a server send it
// requests. The error is an *mcp.Error for ambiguous capabilities, such as those with a
// duplicate key.
func AcceptsRequests(client *exchange.Client) (bool, error) {
	for _, method := range mcp.ServerMethods() {
		if _, found, err := mcp.Lookup(client.Capabilities, mcp.NeededCapability(method)); err != nil || found {
			return found, err
		}
	}
	return false, nil
}
