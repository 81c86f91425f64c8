package backend

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// aboutAccess: the refusal is about who asks, or where; whatever else it says
// comes from somebody in front of the server.
func (f *refusal) aboutAccess() bool {
	return f.status == http.StatusUnauthorized || f.status == http.StatusForbidden || f.status/100 == 3
}

// isAnswer reports whether the JSON-RPC error in the refusal is an answer to the
// request with the id by a server of the stateless era, whose errors come with
// statuses of their own (MCP 2026-07-28, Streamable HTTP: 400 for -32020 to
// -32022 and invalid params, 404 for an unknown method). Servers of the session
// era refuse a request without a session in many ways, most of them with 400 or
// 404 and a code of their own, some with the request's id, most without or with
// a made-up one.
func (f *refusal) isAnswer(id mcp.ID) bool {
	if f.rpc == nil || f.rpc.ID != id && !f.rpc.ID.IsZero() {
		return false
	}
	switch code := f.rpc.Error.Code; {
	case isModernCode(code):
		return true
	case !f.eraStatus():
		return true
	case f.rpc.ID.IsZero():
		return code == mcp.CodeMethodNotFound || code == mcp.CodeInvalidParams
	default:
		return code > -32000 || code <= -32020 // -32000 to -32019 are the session era's
	}
}

// meansOtherEra: the refusal is what a server of the session era says to a
// request of the stateless one (MCP 2026-07-28, Versioning, Backward
// Compatibility; and Transports, for servers of HTTP+SSE).
func (f *refusal) meansOtherEra() bool { return f.eraStatus() }

// eraStatus: the status may be because of the era. Of the other 4xx some are
// about this request alone, or about the way to the server.
func (f *refusal) eraStatus() bool {
	switch f.status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return false
	}
	return f.status/100 == 4 || f.status == http.StatusNotImplemented
}

// isModernCode: only the stateless era has the code.
func isModernCode(code int) bool {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return true
	}
	return false
}

// speaksOtherEra: the server says in words of the stateless era that it speaks
// only versions of the other.
func speaksOtherEra(e *mcp.Error) bool {
	if e == nil {
		return false
	}
	supported, ok := supportedBy(e)
	return ok && !slices.ContainsFunc(supported, mcp.Version.IsStateless)
}

// meansNoSessions: the server says in words of the stateless era that it speaks no
// version of the other, or misses the headers that requests have in that era alone.
func (f *refusal) meansNoSessions() bool {
	if f.rpc == nil || f.status != http.StatusBadRequest {
		return false
	}
	if f.rpc.Error.Code == mcp.CodeHeaderMismatch {
		return true
	}
	supported, ok := supportedBy(f.rpc.Error)
	return ok && slices.ContainsFunc(supported, mcp.Version.IsStateless) && !slices.ContainsFunc(supported, mcp.Version.IsSession)
}

// supportedBy is the versions that an UnsupportedProtocolVersionError names.
func supportedBy(e *mcp.Error) (supported []mcp.Version, ok bool) {
	if e.Code != mcp.CodeUnsupportedVersion {
		return nil, false
	}
	raw, found, err := mcp.Lookup(e.Data, "supported")
	if err != nil || !found || json.Unmarshal(raw, &supported) != nil {
		return nil, false
	}
	return supported, true
}
