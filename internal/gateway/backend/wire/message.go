package wire

import (
	"bytes"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// LooksLikeJSON reports whether b begins like a JSON-RPC message. A log line does not.
func LooksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}

// IsUnidentified reports whether m is an error without an id. A server sends it for a
// message that it could not read (JSON-RPC 2.0 section 5).
func IsUnidentified(m *mcp.Message) bool { return m.ID.IsZero() && m.Error != nil }
