// Package headername has the one list of header fields that a configuration must not set on
// requests of the gateway.
package headername

import (
	"net/textproto"
	"slices"
	"strings"
)

// connection are the fields of the connection (RFC 9110 section 7.6.1) and of its framing.
var connection = []string{
	"Host", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Content-Length",
}

// message are the fields that the gateway sets on a request to a server, and those by which
// proxies identify a sender.
var message = []string{
	"Content-Type", "Accept", "Last-Event-Id", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
}

// OfConnection reports whether a field is for the connection, a proxy or the protocol MCP, in
// any request.
func OfConnection(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	return slices.Contains(connection, canonical) || strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Mcp-")
}

// OfGateway reports whether the gateway sets the field itself on a request to a server.
func OfGateway(name string) bool {
	return OfConnection(name) || slices.Contains(message, textproto.CanonicalMIMEHeaderKey(name))
}
