package mcp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// MirroredName is the member of a request's params that the Mcp-Name header
// repeats (MCP 2026-07-28, basic/transports/streamable-http, Standard Headers):
// "" for a method that has no such header.
func MirroredName(method string) string {
	switch method {
	case MethodToolsCall, MethodPromptsGet:
		return "name"
	case MethodResourcesRead:
		return "uri"
	}
	if strings.HasPrefix(method, "tasks/") { // the tasks extension
		return "taskId"
	}
	return ""
}

// LookupName returns the value that Mcp-Name must repeat, and whether there is
// one.
func LookupName(method string, params json.RawMessage) (name string, found bool, err error) {
	member := MirroredName(method)
	if member == "" {
		return "", false, nil
	}
	return LookupString(params, member)
}

// A value that a header cannot hold unchanged is encoded in Base64 between these (same
// page, Value Encoding). They are case-sensitive.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader encodes a text as the value of a header that mirrors it.
func EncodeHeader(value string) string {
	if isPlainHeader(value) {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

// isPlainHeader reports whether every hop forwards the value unchanged (RFC 9110 section
// 5.5), and it does not look encoded.
func isPlainHeader(value string) bool {
	if value == "" || strings.HasPrefix(value, encodedPrefix) && strings.HasSuffix(value, encodedSuffix) {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(value)-1) {
			return false
		}
	}
	return true
}

// DecodeHeader decodes the value of a header that mirrors a text. ok is false if it has
// the marks of an encoded value and is not valid Base64 of UTF-8.
func DecodeHeader(value string) (text string, ok bool) {
	encoded, is := strings.CutPrefix(value, encodedPrefix)
	if !is {
		return value, true
	}
	if encoded, is = strings.CutSuffix(encoded, encodedSuffix); !is {
		return value, true // not encoded
	}
	b, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}
