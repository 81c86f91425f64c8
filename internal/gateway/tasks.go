package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/maypok86/otter/v2"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxTasks bounds the tasks whose principal is kept.
const maxTasks = 20_000

// newTasks returns the stage that binds tasks to principals (MCP 2025-11-25, basic/utilities/tasks,
// Task Isolation and Access Control). The server cannot do it: it receives no token, and
// without sessions it cannot distinguish callers. A task that this gateway has not seen, such
// as one from before a restart, is left to the server, whose ids are hard to guess.
func newTasks() (exchange.Stage, error) {
	owners, err := otter.New(&otter.Options[[sha256.Size]byte, string]{MaximumSize: maxTasks, Executor: func(f func()) { f() }})
	if err != nil {
		return nil, fmt.Errorf("the owners of tasks: %w", err)
	}
	return func(next exchange.Handler) exchange.Handler {
		return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
			if x.Caller == nil {
				return next(ctx, x)
			}
			if strings.HasPrefix(x.Request.Method, "tasks/") {
				id, found, err := mcp.LookupString(x.Request.Params, "taskId")
				if err != nil {
					return nil, err
				}
				if owner, known := owners.GetIfPresent(sha256.Sum256([]byte(id))); found && known && owner != x.Caller.Principal {
					return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "unknown task"}
				}
				return next(ctx, x)
			}
			m, err := next(ctx, x)
			if err == nil && m.Error == nil && x.Request.Method == mcp.MethodToolsCall {
				if id := taskOf(m.Result); id != "" {
					owners.SetIfAbsent(sha256.Sum256([]byte(id)), x.Caller.Principal)
				}
			}
			return m, err
		}
	}, nil
}

// taskOf is the id of the task in the result of a call that created one, "" for none: the
// member task (MCP 2025-11-25), or the result itself (the tasks extension of 2026-07-28).
func taskOf(result []byte) string {
	if !mcp.Mentions(result, "taskId") {
		return ""
	}
	for _, path := range [][]string{{"task", "taskId"}, {"taskId"}} {
		if id, found, err := mcp.LookupString(result, path...); err == nil && found {
			return id
		}
	}
	return ""
}
