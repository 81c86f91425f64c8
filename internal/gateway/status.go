package gateway

import (
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// This file says with which HTTP status an error goes to a client.

// openStatus is the HTTP status for a connection that could not be opened. The
// server's own refusal is an answer like any other.
func (g *Gateway) openStatus(err error) int {
	var rpc *mcp.Error
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, errStopping), errors.Is(err, errClientRoom), errors.Is(err, errFull):
		return http.StatusServiceUnavailable
	case errors.As(err, &rpc) && rpc.Code != mcp.CodeServerGone:
		return http.StatusOK
	}
	if state, _ := g.cfg.Status(); state != "running" {
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

// reviveStatus is the HTTP status for a session that could not be found or
// revived.
func (g *Gateway) reviveStatus(err error) int {
	var rpc *mcp.Error
	if errors.As(err, &rpc) && rpc.Code == mcp.CodeSessionNotFound {
		return http.StatusNotFound
	}
	if status := g.openStatus(err); status != http.StatusOK {
		return status
	}
	return http.StatusBadGateway
}

// refusedStatus is the HTTP status for a request that its session did not take.
func refusedStatus(err error) int {
	switch {
	case errors.Is(err, errSessionOver):
		return http.StatusNotFound
	case errors.Is(err, errTooManyCalls):
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

// untakenStatus is the HTTP status for a notification that did not arrive: it
// is ours to explain, or the way to the server failed.
func (s *session) untakenStatus(err error) int {
	var rpc *mcp.Error
	switch {
	case errors.Is(err, errSessionOver) || errors.Is(err, errUninitialized):
		return refusedStatus(err)
	case errors.Is(err, errTooManyNotices):
		return http.StatusServiceUnavailable
	case errors.As(err, &rpc) && s.lostBy(rpc):
		return http.StatusNotFound
	}
	return http.StatusBadGateway
}

// modernStatus is the HTTP status of an error of the stateless era that comes
// before anything else (MCP 2026-07-28, basic/transports/streamable-http, Error
// Handling).
func modernStatus(err error) int {
	var rpc *mcp.Error
	if !errors.As(err, &rpc) {
		return http.StatusOK
	}
	switch rpc.Code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeInvalidParams, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion, mcp.CodeInvalidRequest, mcp.CodeParse:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// statusOf is the HTTP status of a response of the stateless era.
func statusOf(response *mcp.Message) int {
	if response.Error != nil {
		return modernStatus(response.Error)
	}
	return http.StatusOK
}
