package sessions

import (
	"errors"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// resumeStatus is the HTTP status for a session that could not be found or resumed.
func (st *Store) resumeStatus(err error) int {
	var rpc *mcp.Error
	if errors.As(err, &rpc) && rpc.Code == mcp.CodeSessionNotFound {
		return http.StatusNotFound
	}
	if status := st.openStatus(err); status != http.StatusOK {
		return status
	}
	return http.StatusBadGateway
}

// refusedStatus is the HTTP status for a request that its session did not accept.
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

// noticeStatus is the HTTP status for a notification that did not reach the server: the
// session did not accept it, or the connection failed.
func (s *session) noticeStatus(err error) int {
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
