package wire

import (
	"fmt"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// MaxShown bounds the characters of hostile text that an error or a log line shows.
const MaxShown = 200

// ServerGone is the error for a request that has no answer because of the server or
// the way to it.
func ServerGone(format string, args ...any) error {
	return &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf(format, args...)}
}

// Printable makes hostile text fit for one line of a message.
func Printable(s string) string {
	s = plaintext.Line(s[:min(len(s), 4*MaxShown)])
	if r := []rune(s); len(r) > MaxShown {
		s = string(r[:MaxShown]) + "..."
	}
	return s
}

// StatusError is an HTTP status in place of an answer. It is an *mcp.Error too.
type StatusError struct {
	Status int
	error
}

func (e *StatusError) Unwrap() error { return e.error }

// NewStatusError is the error for a request that was answered with an HTTP status that is
// no success; text is for people.
func NewStatusError(status int, text string) error {
	return &StatusError{status, ServerGone("%s", text)}
}

// SessionNotFound is what fronts turn into HTTP 404, so that the client starts a
// new session (MCP, Streamable HTTP, Session Management, 3 and 4).
func SessionNotFound(server string) error {
	return &mcp.Error{Code: mcp.CodeSessionNotFound,
		Message: "the server at " + server + " no longer knows the session; initialize again"}
}

// ErrClosed is the error for a request on a connection that was closed.
func ErrClosed(server string) error {
	return ServerGone("the connection to the server at %s is closed", server)
}

// ErrStopped is the reason of everything that fails because of Close.
var ErrStopped = ServerGone("the workload is stopping")
