package wire

import (
	"fmt"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// MaxShown bounds the characters of untrusted text that an error or a log line contains.
const MaxShown = 200

// ServerGone returns the error for a request without a usable response, because of the
// server or the connection to it.
func ServerGone(format string, args ...any) error {
	return &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf(format, args...)}
}

// Printable returns untrusted text as one line without control sequences, cut after
// [MaxShown] characters.
func Printable(s string) string {
	s = plaintext.Line(s[:min(len(s), 4*MaxShown)])
	if r := []rune(s); len(r) > MaxShown {
		s = string(r[:MaxShown]) + "..."
	}
	return s
}

// StatusError is an HTTP status that was received in place of a response. It wraps an
// *mcp.Error.
type StatusError struct {
	Status int
	error
}

func (e *StatusError) Unwrap() error { return e.error }

// NewStatusError returns the error for a request that failed with an HTTP status. text is
// the message of the error.
func NewStatusError(status int, text string) error {
	return &StatusError{status, ServerGone("%s", text)}
}

// NotConnectedError is returned when no connection to the server was established, so the
// server received nothing. It wraps an *mcp.Error.
type NotConnectedError struct {
	Err      error
	TimedOut bool // the attempt to connect timed out
}

// Timeout implements the part of [net.Error] that reports a time-out.
func (e *NotConnectedError) Timeout() bool { return e.TimedOut }

func (e *NotConnectedError) Error() string { return e.Err.Error() }
func (e *NotConnectedError) Unwrap() error { return e.Err }

// SessionNotFound returns the error that fronts turn into HTTP 404, so that the client
// starts a new session (MCP, Streamable HTTP, Session Management, 3 and 4).
func SessionNotFound(server string) error {
	return &mcp.Error{Code: mcp.CodeSessionNotFound,
		Message: "the server at " + server + " no longer has the session; initialize again"}
}

// ErrClosed returns the error for a request on a connection that was closed.
func ErrClosed(server string) error {
	return ServerGone("the connection to the server at %s is closed", server)
}

// ErrStopped is the error of requests that fail because the backend was closed.
var ErrStopped = ServerGone("the workload is stopping")
