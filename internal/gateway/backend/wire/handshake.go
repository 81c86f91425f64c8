package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// InitializeRequest is the request that opens a session for client (MCP,
// Lifecycle, Initialization): in the client's own words where it has any.
func InitializeRequest(client *exchange.Client) (*mcp.Message, error) {
	params := struct {
		ProtocolVersion mcp.Version     `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}{client.Version, client.Capabilities, client.Info}
	if !params.ProtocolVersion.IsSession() {
		params.ProtocolVersion = mcp.LatestSession
	}
	if len(params.Capabilities) == 0 {
		params.Capabilities = json.RawMessage(`{}`)
	}
	if len(params.ClientInfo) == 0 {
		params.ClientInfo = OwnClient().Info
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("write the initialize request: %w", err)
	}
	return &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodInitialize, Params: raw}, nil
}

// InitializedNotification completes the handshake.
func InitializedNotification() *mcp.Message {
	return &mcp.Message{Method: mcp.NotificationInitialized}
}

// NegotiatedVersion reads the version out of a server's answer to initialize. A server
// may answer with another version than it was asked for; we go on if we speak
// it, and the client sees it too and decides for itself.
func NegotiatedVersion(server string, answer *mcp.Message) (mcp.Version, error) {
	if answer.Error != nil {
		return "", answer.Error
	}
	v, found, err := mcp.LookupString(answer.Result, "protocolVersion")
	switch {
	case err != nil:
		return "", ServerGone("%s gave an answer to initialize that cannot be read: %v", server, err)
	case !found:
		return "", ServerGone("%s answered initialize without a protocolVersion", server)
	case !mcp.Version(v).IsSession():
		return "", ServerGone("%s wants protocol version %q; versions spoken are %v", server, Printable(v), mcp.SessionVersions())
	}
	return mcp.Version(v), nil
}

// HandshakeTimeout bounds a handshake, and the wait for whatever else a server that has only
// just been started is asked first.
const HandshakeTimeout = time.Minute

// WithinHandshakeTimeout bounds a handshake: a server that takes initialize and never answers it
// must not keep a client that has set itself no limit.
func WithinHandshakeTimeout(ctx context.Context, server string, handshake func(context.Context) error) error {
	bound, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	err := handshake(bound)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return ServerGone("%s did not answer %s within %s", server, mcp.MethodInitialize, HandshakeTimeout)
	}
	return err
}
