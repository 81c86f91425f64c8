package gateway

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// recovered is the outermost stage: a panic below is the error of this request
// and of no other.
func (g *Gateway) recovered(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (m *mcp.Message, err error) {
		defer func() {
			if p := recover(); p != nil {
				g.log.Error("panic in a request", "method", short(x.Request.Method), "panic", p, "stack", string(debug.Stack()))
				m, err = nil, &mcp.Error{Code: mcp.CodeInternal, Message: "internal error in the gateway; its log says more"}
			}
		}()
		return next(ctx, x)
	}
}

// short bounds a method, which may be anything, for the log.
func short(method string) string {
	if len(method) > 64 {
		return method[:64] + "..."
	}
	return method
}

// outcome plays x out and makes sure that what comes back answers x and nobody
// else.
func (g *Gateway) outcome(ctx context.Context, x *exchange.Exchange) *mcp.Message {
	id := x.Request.ID
	m, err := g.handler(ctx, x)
	switch {
	case err != nil:
		// "context canceled" tells a client nothing; the cause does.
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			err = cause
		}
		return mcp.ErrorResponse(id, mcp.CodeServerGone, err)
	case m == nil || m.Kind() != mcp.Response || m.ID != id || (m.Result == nil) == (m.Error == nil):
		g.log.Error("the backend returned something that does not answer the request", "method", short(x.Request.Method), "nothing", m == nil)
		return mcp.NewError(id, mcp.CodeInternal, "internal error in the gateway; its log says more")
	case m.Error == nil && m.Result[0] != '{':
		// MCP, Base Protocol: a result is an object. A null would be an empty success.
		return mcp.NewError(id, mcp.CodeServerGone, "the server answered "+short(x.Request.Method)+" with a result that is no object")
	}
	return m
}
