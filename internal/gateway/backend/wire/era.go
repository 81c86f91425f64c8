package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file is what tells a server's era, in whatever words it is said.

// OtherEraError is returned when the server refused a request, or answered initialize,
// as a server of the other era does.
type OtherEraError struct{ Err error }

func (e *OtherEraError) Error() string { return e.Err.Error() }
func (e *OtherEraError) Unwrap() error { return e.Err }

// IsRefusal reports whether the server itself refused, and not something on the way to
// it, and not because a credential is missing.
func IsRefusal(err error) bool {
	var era *OtherEraError
	var rpc *mcp.Error
	var refused *StatusError
	if errors.As(err, &refused) {
		return IsEraStatus(refused.Status)
	}
	return errors.As(err, &era) || errors.As(err, &rpc) && rpc.Code != mcp.CodeServerGone
}

// IsEraStatus reports whether a server of the session era may refuse a request of the stateless one
// with that HTTP status (MCP 2026-07-28, Versioning, Backward Compatibility; and
// Transports, for servers of HTTP+SSE). Of the other 4xx some are about this request
// alone, or about the way to the server.
func IsEraStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return false
	}
	return status/100 == 4 || status == http.StatusNotImplemented
}

// IsStatelessCode reports whether only the stateless era has the code.
func IsStatelessCode(code int) bool {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return true
	}
	return false
}

// IsOtherEra reports whether e is an error of the stateless era by which the server supports
// only versions of the other.
func IsOtherEra(e *mcp.Error) bool {
	if e == nil {
		return false
	}
	supported, ok := SupportedVersions(e)
	return ok && !slices.ContainsFunc(supported, mcp.Version.IsStateless)
}

// ProvesStateless reports whether answer is one to server/discover as only a server of the stateless
// era gives it, be it an error (MCP 2026-07-28, Versioning, Backward
// Compatibility).
func ProvesStateless(answer *mcp.Message) bool {
	switch {
	case answer == nil:
		return false
	case answer.Error != nil:
		return IsStatelessCode(answer.Error.Code) && !IsOtherEra(answer.Error)
	}
	supported, ok := VersionsIn(answer.Result, "supportedVersions")
	return ok && slices.ContainsFunc(supported, mcp.Version.IsStateless)
}

// SupportedVersions is the versions that an UnsupportedProtocolVersionError names.
func SupportedVersions(e *mcp.Error) (supported []mcp.Version, ok bool) {
	if e.Code != mcp.CodeUnsupportedVersion {
		return nil, false
	}
	return VersionsIn(e.Data, "supported")
}

// VersionsIn reads a member that is a list of versions.
func VersionsIn(raw json.RawMessage, member string) (versions []mcp.Version, ok bool) {
	list, found, err := mcp.Lookup(raw, member)
	if err != nil || !found || json.Unmarshal(list, &versions) != nil {
		return nil, false
	}
	return versions, true
}
