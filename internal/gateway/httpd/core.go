// Package httpd holds what the fronts of the gateway share on the side of HTTP: the checks
// of a request before it is read, reading a body within the byte budgets, and writing a
// response, as plain JSON or as an event stream.
//
// A [Core] is made once per gateway. Everything that several clients compete for is in it:
// the budgets of bytes, the group of calls in flight, the timing.
package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/seal"
	"github.com/toolhaven/toolhaven/internal/taskgroup"
)

// Core is what the fronts of one gateway share.
type Core struct {
	// Name is the workload's.
	Name     string
	Endpoint endpoint.Config
	// TrustProxyHeaders is set when every request passes a reverse proxy that sets
	// X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Prefix.
	TrustProxyHeaders bool
	Log               *slog.Logger
	Timing            Timing
	// Running reports whether the workload is in the state "running".
	Running func() bool
	Backend exchange.Backend
	// Handler is the stages that inspect exchanges, then the backend.
	Handler exchange.Handler
	// Sealer seals session ids and requestStates.
	Sealer *seal.Sealer

	// Self is the address at which the other replicas of the gateway reach this one; "" if
	// there are none.
	Self string

	// Inbound is for bodies of requests, Held for what is kept until a client reads it
	// or answers.
	Inbound, Held Budget
	// MaxSessions bounds the open sessions; beyond, the ones idle longest end.
	MaxSessions int
	// Calls are the exchanges in flight.
	Calls taskgroup.Group
	// Draining ends when the gateway accepts no new requests, Context when it ends the
	// remaining ones, with their cause.
	Draining, Context context.Context

	buffers buffers
}

// Timing is how long a gateway waits for what. Tests shorten some of it.
type Timing struct {
	Quiet     time.Duration // a POST without output for so long becomes an event stream
	KeepAlive time.Duration // between comments on an open stream
	Write     time.Duration // for a client to read what was written
	ReadBody  time.Duration // for a client to send a body
	AskGrace  time.Duration // for a session's stream, before a server's request fails
	ComeBack  time.Duration // for a client that lost its stream, before a server's request fails
	Settle    time.Duration // for calls that were cancelled to return
	Gather    time.Duration // for further requests of a server, before a POST is answered with them
	Parked    time.Duration // for a client's answers to them
	Room      time.Duration // for room in Held, before a response becomes an error
	Notice    time.Duration // for a server to accept a notification
}

// DefaultTiming is the timing of a gateway. Proxies cut connections that are idle for 30
// to 60 seconds.
func DefaultTiming() Timing {
	return Timing{
		Quiet:     10 * time.Second,
		KeepAlive: 20 * time.Second,
		Write:     60 * time.Second,
		ReadBody:  30 * time.Second,
		AskGrace:  10 * time.Second,
		ComeBack:  60 * time.Second,
		Settle:    2 * time.Second,
		Gather:    25 * time.Millisecond,
		Parked:    15 * time.Minute, // a person may have to answer
		Room:      5 * time.Second,
		Notice:    30 * time.Second,
	}
}

// ErrStopping is the response to requests that arrive while the gateway closes.
var ErrStopping = &mcp.Error{Code: mcp.CodeServerGone, Message: "the workload is stopping; connect again when it runs"}

// Outcome sends x through the stages and checks that the result is the response to x.
func (c *Core) Outcome(ctx context.Context, x *exchange.Exchange) *mcp.Message {
	id := x.Request.ID
	m, err := c.Handler(ctx, x)
	switch {
	case err != nil:
		// The cause is more useful to a client than "context canceled".
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			err = cause
		}
		return mcp.ErrorResponse(id, mcp.CodeServerGone, err)
	case m == nil || m.Kind() != mcp.Response || m.ID != id || (m.Result == nil) == (m.Error == nil):
		c.Log.Error("the backend returned a message that is not the response to the request", "method", Short(x.Request.Method), "nothing", m == nil)
		return mcp.NewError(id, mcp.CodeInternal, "internal error in the gateway; see its log")
	case m.Error == nil && m.Result[0] != '{':
		// MCP, Base Protocol: a result is an object. A null would be an empty success.
		return mcp.NewError(id, mcp.CodeServerGone, "the server answered "+Short(x.Request.Method)+" with a result that is not an object")
	}
	return m
}

// Status is the HTTP status of a response: that of its error, or else status.
func Status(response *mcp.Message, status int) int {
	if response.Error != nil && response.Error.Status != 0 {
		return response.Error.Status
	}
	return status
}

// Short is a method, which a client or server chose, for logs and errors.
func Short(method string) string { return plaintext.Excerpt(method, 64) }

// OpenStatus is the HTTP status for a connection to the server that could not be opened.
// A refusal by the server itself is a response like any other.
func (c *Core) OpenStatus(err error) int {
	var rpc *mcp.Error
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrStopping):
		return http.StatusServiceUnavailable
	case errors.As(err, &rpc) && rpc.Status != 0:
		return rpc.Status
	case errors.As(err, &rpc) && rpc.Code != mcp.CodeServerGone:
		return http.StatusOK
	case !c.Running():
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}
