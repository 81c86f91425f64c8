package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// recovered is the outermost stage: a panic below is the error of this request only.
func recovered(log *slog.Logger) exchange.Stage {
	return func(next exchange.Handler) exchange.Handler {
		return func(ctx context.Context, x *exchange.Exchange) (m *mcp.Message, err error) {
			defer func() {
				if p := recover(); p != nil {
					log.Error("panic in a request", "method", httpd.Short(x.Request.Method), "panic", p, "stack", string(debug.Stack()))
					m, err = nil, &mcp.Error{Code: mcp.CodeInternal, Message: "internal error in the gateway; see its log"}
				}
			}()
			return next(ctx, x)
		}
	}
}

// chain puts the stages that are not nil around last, the first one outermost.
func chain(last exchange.Handler, stages ...exchange.Stage) exchange.Handler {
	for _, stage := range slices.Backward(stages) {
		if stage != nil {
			last = stage(last)
		}
	}
	return last
}

// wrap is chain for stages that inspect HTTP requests.
func wrap(last http.Handler, stages ...func(http.Handler) http.Handler) http.Handler {
	for _, stage := range slices.Backward(stages) {
		if stage != nil {
			last = stage(last)
		}
	}
	return last
}
