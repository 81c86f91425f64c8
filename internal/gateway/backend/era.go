package backend

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file is what tells a server's era, in whatever words it is said.

// otherEra: the server refused in a way that a server of the other era does.
type otherEra struct{ err error }

func (e *otherEra) Error() string { return e.err.Error() }
func (e *otherEra) Unwrap() error { return e.err }

// refusedByServer: it was the server that said no, and not the way to it, and
// not for want of a credential.
func refusedByServer(err error) bool {
	var era *otherEra
	var rpc *mcp.Error
	var refused *refusedError
	if errors.As(err, &refused) {
		return isEraStatus(refused.status)
	}
	return errors.As(err, &era) || errors.As(err, &rpc) && rpc.Code != mcp.CodeServerGone
}

// isEraStatus: a server of the session era may refuse a request of the stateless one
// with that HTTP status (MCP 2026-07-28, Versioning, Backward Compatibility; and
// Transports, for servers of HTTP+SSE). Of the other 4xx some are about this request
// alone, or about the way to the server.
func isEraStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return false
	}
	return status/100 == 4 || status == http.StatusNotImplemented
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

// provesModern: an answer to server/discover as only a server of the stateless
// era gives it, be it an error (MCP 2026-07-28, Versioning, Backward
// Compatibility).
func provesModern(answer *mcp.Message) bool {
	switch {
	case answer == nil:
		return false
	case answer.Error != nil:
		return isModernCode(answer.Error.Code) && !speaksOtherEra(answer.Error)
	}
	supported, ok := versionsIn(answer.Result, "supportedVersions")
	return ok && slices.ContainsFunc(supported, mcp.Version.IsStateless)
}

// supportedBy is the versions that an UnsupportedProtocolVersionError names.
func supportedBy(e *mcp.Error) (supported []mcp.Version, ok bool) {
	if e.Code != mcp.CodeUnsupportedVersion {
		return nil, false
	}
	return versionsIn(e.Data, "supported")
}

// versionsIn reads a member that is a list of versions.
func versionsIn(raw json.RawMessage, member string) (versions []mcp.Version, ok bool) {
	list, found, err := mcp.Lookup(raw, member)
	if err != nil || !found || json.Unmarshal(list, &versions) != nil {
		return nil, false
	}
	return versions, true
}
