package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// InitializeRequest returns the request that opens a session for client (MCP, Lifecycle,
// Initialization). It contains the client's own version, capabilities and info. Defaults
// replace what is missing, and a version that is not of the session era.
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

// InitializedNotification returns the notification that completes the handshake.
func InitializedNotification() *mcp.Message {
	return &mcp.Message{Method: mcp.NotificationInitialized}
}

// DiscoverRequest returns a server/discover request of the gateway's own in version v (MCP
// 2026-07-28, Versioning).
func DiscoverRequest(v mcp.Version) (*exchange.Exchange, error) {
	client := OwnClient()
	client.Version = v
	params, err := NewClientMeta(client).Into(nil, "")
	if err != nil {
		return nil, err
	}
	return &exchange.Exchange{
		Client:  client,
		Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodDiscover, Params: params},
		Meta:    mcp.Meta{Versioned: true, Version: string(v)},
	}, nil
}

// NegotiatedVersion returns the version in a server's response to initialize (MCP
// 2025-11-25, Lifecycle, Version Negotiation). It need not be the requested one; any
// version of the session era is accepted, and the client decides whether it supports it.
// The error is an [*OtherEraError] when the result has no such version: the server may
// support the stateless era only.
func NegotiatedVersion(server string, answer *mcp.Message) (mcp.Version, error) {
	if answer.Error != nil {
		return "", answer.Error
	}
	v, found, err := mcp.LookupString(answer.Result, "protocolVersion")
	switch {
	case err != nil:
		return "", ServerGone("%s returned a result of initialize that cannot be read: %v", server, err)
	case !found:
		return "", &OtherEraError{ServerGone("%s answered initialize without a protocolVersion", server)}
	case !mcp.Version(v).IsSession():
		return "", &OtherEraError{ServerGone("%s answered initialize with protocol version %q; supported versions are %v", server, Printable(v), mcp.SessionVersions())}
	}
	return mcp.Version(v), nil
}

// HandshakeTimeout bounds a handshake, and any other first request to a server that may
// have been started just before.
const HandshakeTimeout = time.Minute

// WithinHandshakeTimeout calls handshake with a context that ends after
// [HandshakeTimeout]: a server that accepts initialize and never responds must not block a
// client that has no timeout of its own.
func WithinHandshakeTimeout(ctx context.Context, server string, handshake func(context.Context) error) error {
	bound, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	err := handshake(bound)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return ServerGone("%s did not answer %s within %s", server, mcp.MethodInitialize, HandshakeTimeout)
	}
	return err
}
