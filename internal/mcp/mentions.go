package mcp

import (
	"bytes"
	"strings"
)

// Mentions reports whether a key or a text in the JSON raw may hold text. It is for
// not looking closer where there is nothing to see: false is certain, whatever is
// written as an escape (RFC 8259 section 7 lets any character be).
func Mentions(raw []byte, text string) bool {
	return bytes.Contains(raw, []byte(text)) || bytes.Contains(raw, []byte(`\u`)) ||
		strings.Contains(text, "/") && bytes.Contains(raw, []byte(`\/`))
}
