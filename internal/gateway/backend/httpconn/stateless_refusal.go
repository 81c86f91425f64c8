package httpconn

import (
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// aboutAccess reports whether the refusal is about the credential or the URL. Such a
// response, with any JSON-RPC error in it, may be that of a proxy in front of the server.
func (f *refusal) aboutAccess() bool {
	return f.status == http.StatusUnauthorized || f.status == http.StatusForbidden || f.status/100 == 3
}

// isAnswer reports whether the JSON-RPC error in the refusal is the response of a server of
// the stateless era to the request with the id. That era defines the HTTP status of its
// errors (MCP 2026-07-28, Streamable HTTP: 400 for -32020 to -32022 and invalid params, 404
// for an unknown method). Servers of the session era refuse a request without a session in
// many ways. Most send 400 or 404 and a code of their own. Some send the request's id, most
// send none or an invented one.
func (f *refusal) isAnswer(id mcp.ID) bool {
	if f.rpc == nil || !f.rpc.ID.Means(id) && !f.rpc.ID.IsZero() {
		return false
	}
	switch code := f.rpc.Error.Code; {
	case wire.IsStatelessCode(code):
		return true
	case !wire.IsEraStatus(f.status):
		return true
	case f.rpc.ID.IsZero():
		return code == mcp.CodeMethodNotFound || code == mcp.CodeInvalidParams
	default:
		return code > -32000 || code <= -32020 // -32000 to -32019 are codes of the session era
	}
}

// meansNoSessions reports whether the server supports the stateless era only: its error
// lists supported versions, none of which is of the session era, or it requires headers
// that only requests of the stateless era have.
func (f *refusal) meansNoSessions() bool {
	if f.rpc == nil || f.status != http.StatusBadRequest {
		return false
	}
	if f.rpc.Error.Code == mcp.CodeHeaderMismatch {
		return true
	}
	supported, ok := wire.SupportedVersions(f.rpc.Error)
	return ok && slices.ContainsFunc(supported, mcp.Version.IsStateless) && !slices.ContainsFunc(supported, mcp.Version.IsSession)
}
