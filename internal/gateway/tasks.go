package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
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
	o := taskOwners{owners}
	return func(next exchange.Handler) exchange.Handler {
		return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
			switch {
			case x.Caller == nil:
				return next(ctx, x)
			case x.Request.Method == "tasks/list":
				return o.list(ctx, x, next)
			case strings.HasPrefix(x.Request.Method, "tasks/"):
				return o.one(ctx, x, next)
			case x.Request.Method == mcp.MethodToolsCall:
				return o.call(ctx, x, next)
			}
			return next(ctx, x)
		}
	}, nil
}

// taskOwners are the principals of tasks, by the SHA-256 of a task's id.
type taskOwners struct {
	*otter.Cache[[sha256.Size]byte, string]
}

// ofAnother reports whether a task was created by another principal.
func (o taskOwners) ofAnother(id, principal string) bool {
	owner, known := o.GetIfPresent(sha256.Sum256([]byte(id)))
	return known && owner != principal
}

// call notes the principal of the task that a call creates.
func (o taskOwners) call(ctx context.Context, x *exchange.Exchange, next exchange.Handler) (*mcp.Message, error) {
	m, err := next(ctx, x)
	if err == nil && m.Error == nil {
		if id := taskOf(m.Result); id != "" {
			o.SetIfAbsent(sha256.Sum256([]byte(id)), x.Caller.Principal)
		}
	}
	return m, err
}

// one serves a request about one task.
func (o taskOwners) one(ctx context.Context, x *exchange.Exchange, next exchange.Handler) (*mcp.Message, error) {
	id, found, err := mcp.LookupString(x.Request.Params, "taskId")
	if err != nil {
		return nil, err
	}
	if found && o.ofAnother(id, x.Caller.Principal) {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "unknown task"}
	}
	return next(ctx, x)
}

// list serves tasks/list without the tasks of other principals.
func (o taskOwners) list(ctx context.Context, x *exchange.Exchange, next exchange.Handler) (*mcp.Message, error) {
	m, err := next(ctx, x)
	if err != nil || m.Error != nil {
		return m, err
	}
	list, err := mcp.ReadList(m.Result, "tasks", "taskId")
	if err != nil {
		return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("the server's list of tasks cannot be read: %v", err)}
	}
	own := make([]json.RawMessage, 0, len(list.Items))
	for _, item := range list.Items {
		if !o.ofAnother(item.Name, x.Caller.Principal) {
			own = append(own, item.Raw)
		}
	}
	return mcp.NewResult(m.ID, list.With(own)), nil
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
