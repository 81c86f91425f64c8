package wire

import (
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// ClientKey is what a server of the session era can distinguish of a client. Clients with
// equal keys share sessions and processes.
type ClientKey struct {
	Principal    string
	Capabilities string // canonical JSON
	// Info is the client's Info as canonical JSON if the server may send requests to the
	// client, and empty otherwise: then Info may differ, and the server receives that of
	// the first client.
	Info string
}

// KeyOf returns the key of client. The error is an *mcp.Error for capabilities or Info that
// two parsers could read differently.
func KeyOf(client *exchange.Client) (ClientKey, error) {
	accepts, err := AcceptsRequests(client)
	if err != nil {
		return ClientKey{}, err
	}
	capabilities, err := mcp.Canonical(client.Capabilities)
	if err != nil {
		return ClientKey{}, err
	}
	key := ClientKey{Principal: client.Principal, Capabilities: string(capabilities)}
	if accepts {
		info, err := mcp.Canonical(client.Info)
		if err != nil {
			return ClientKey{}, err
		}
		key.Info = "info " + string(info)
	}
	return key, nil
}

// AcceptsRequests reports whether the server may send requests to the client.
func (k ClientKey) AcceptsRequests() bool { return k.Info != "" }
