package httpd

import (
	"context"
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// ErrClientGone is the error of a server's request, and the cause of a cancellation.
var ErrClientGone = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client disconnected before it answered"}

// Answer is a client's answer to a server's request, with the reservation for the body
// that it came in: a server that does not read may let it wait for long.
type Answer struct {
	Result json.RawMessage
	Error  *mcp.Error
	Body   *Reservation
}

// ReleaseAfter releases the body when ctx ends, which is when the answer was forwarded
// ([exchange.Peer]).
func (a Answer) ReleaseAfter(ctx context.Context) {
	if a.Body != nil {
		context.AfterFunc(ctx, a.Body.Release)
	}
}

// Discard releases the body of an answer that came when no caller waited for it any more.
// The caller has removed the request, so no other answer follows.
func Discard(answered <-chan Answer) {
	select {
	case a := <-answered:
		a.Body.Release()
	default:
	}
}
