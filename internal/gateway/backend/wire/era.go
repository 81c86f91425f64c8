package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file detects a server's era from its responses, its errors and its HTTP statuses.

// OtherEraError is returned when the server refused a request, or responded to initialize,
// as a server of the other era does.
type OtherEraError struct{ Err error }

func (e *OtherEraError) Error() string { return e.Err.Error() }
func (e *OtherEraError) Unwrap() error { return e.Err }

// IsRefusal reports whether err is a refusal by the server itself. A connection failure, an
// error of an intermediary and a missing credential are no refusals.
func IsRefusal(err error) bool {
	var era *OtherEraError
	var rpc *mcp.Error
	var refused *StatusError
	if errors.As(err, &refused) {
		return IsEraStatus(refused.Status)
	}
	return errors.As(err, &era) || errors.As(err, &rpc) && rpc.Code != mcp.CodeServerGone
}

// IsEraStatus reports whether a server of the session era may refuse a request of the
// stateless era with that HTTP status (MCP 2026-07-28, Versioning, Backward Compatibility;
// and Transports, for servers of HTTP+SSE). The 4xx statuses that it excludes concern this
// one request, or access to the server.
func IsEraStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return false
	}
	return status/100 == 4 || status == http.StatusNotImplemented
}

// IsStatelessCode reports whether the error code exists in the stateless era only.
func IsStatelessCode(code int) bool {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return true
	}
	return false
}

// IsOtherEra reports whether e is an UnsupportedProtocolVersionError that lists no version
// of the stateless era.
func IsOtherEra(e *mcp.Error) bool {
	if e == nil {
		return false
	}
	supported, ok := SupportedVersions(e)
	return ok && !slices.ContainsFunc(supported, mcp.Version.IsStateless)
}

// ProvesStateless reports whether answer, a response to server/discover, can only come from
// a server of the stateless era (MCP 2026-07-28, Versioning, Backward Compatibility). It is
// then a result that lists a version of that era, or an error with a code of that era.
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

// ListsSessions reports whether a DiscoverResult lists a version of the session era. Some
// servers that support both eras list versions of the stateless era only.
func ListsSessions(discovered json.RawMessage) bool {
	supported, _ := VersionsIn(discovered, "supportedVersions")
	return slices.ContainsFunc(supported, mcp.Version.IsSession)
}

// SupportedVersions returns the versions that an UnsupportedProtocolVersionError lists. ok
// is false for another error, and for one without a readable list.
func SupportedVersions(e *mcp.Error) (supported []mcp.Version, ok bool) {
	if e.Code != mcp.CodeUnsupportedVersion {
		return nil, false
	}
	return VersionsIn(e.Data, "supported")
}

// VersionsIn returns the list of versions that is a member of the object raw. ok is false
// when the member is missing or is not such a list.
func VersionsIn(raw json.RawMessage, member string) (versions []mcp.Version, ok bool) {
	list, found, err := mcp.Lookup(raw, member)
	if err != nil || !found || json.Unmarshal(list, &versions) != nil {
		return nil, false
	}
	return versions, true
}
