package wire

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Stateless is a transport's way to a server of the stateless era (MCP 2026-07-28).
type Stateless interface {
	// Do plays out a request whose params are of the stateless era already, with
	// a complete _meta. What comes back is the server's own response, with the
	// client's id, whatever its resultType. Notifications of the request go to
	// its Peer; the subscription ids in them are the client's too. Cancelling ctx
	// cancels the request at the server, in the way of the transport.
	//
	// The error is an [*otherEra] when the server is evidently not of this era
	// and has not worked on the request.
	Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error)
	Close() error
}

// AcceptsRequests reports whether client declared a capability that lets a server send it
// requests. The error is an *mcp.Error for capabilities that two readers could read
// differently.
func AcceptsRequests(client *exchange.Client) (bool, error) {
	for _, method := range mcp.ServerMethods() {
		if _, found, err := mcp.Lookup(client.Capabilities, mcp.NeededCapability(method)); err != nil || found {
			return found, err
		}
	}
	return false, nil
}
