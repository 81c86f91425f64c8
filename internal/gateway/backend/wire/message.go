package wire

import (
	"bytes"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// LooksLikeJSON reports whether b looks like a message, and not like a line of
// somebody's log.
func LooksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}

// IsUnidentified reports whether m is an error for a message that the server could not read.
func IsUnidentified(m *mcp.Message) bool { return m.ID.IsZero() && m.Error != nil }
