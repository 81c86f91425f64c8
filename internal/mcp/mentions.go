package mcp

import (
	"bytes"
	"strings"
)

// Mentions reports whether a key or a string in the JSON raw may contain text. It is a
// quick test before a search: false is certain, also where characters are escaped (RFC
// 8259 section 7 allows that for any character).
func Mentions(raw []byte, text string) bool {
	return bytes.Contains(raw, []byte(text)) || bytes.Contains(raw, []byte(`\u`)) ||
		strings.Contains(text, "/") && bytes.Contains(raw, []byte(`\/`))
}
