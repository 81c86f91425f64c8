package toolset

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// maxShown bounds the name of a tool in an error, in characters.
const maxShown = 256

// Stage is an [exchange.Stage]: it filters and renames the tools in the results of
// tools/list, and sends tools/call with the server's own name. The headers of MCP 2026-07-28
// that repeat the name are compared with the body before, by the front, and made anew from
// the request behind, by the backend.
func (s *Set) Stage(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		switch x.Request.Method {
		case mcp.MethodToolsList:
			m, err := next(ctx, x)
			if err != nil || m.Error != nil {
				return m, err
			}
			result, err := s.list(m.Result)
			if err != nil {
				return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("the server's list of tools cannot be read: %v", err)}
			}
			return mcp.NewResult(m.ID, result), nil
		case mcp.MethodToolsCall:
			x, err := s.call(x)
			if err != nil {
				return nil, err
			}
			return next(ctx, x)
		}
		return next(ctx, x)
	}
}

// call returns the exchange of a tools/call as the server receives it. The error is an
// *mcp.Error.
func (s *Set) call(x *exchange.Exchange) (*exchange.Exchange, error) {
	name, found, err := mcp.LookupString(x.Request.Params, "name")
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.name is missing"}
	}
	actual, ok := s.resolve(name)
	if !ok {
		// The error of the protocol for a tool that does not exist (MCP, Tools, Error
		// Handling).
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown tool: " + plaintext.Excerpt(name, maxShown)}
	}
	if actual == name {
		return x, nil
	}
	request := *x.Request
	if request.Params, err = mcp.Replace(request.Params, quote(actual), "name"); err != nil {
		return nil, err
	}
	changed := *x
	changed.Request = &request
	return &changed, nil
}

// list returns a ListToolsResult as clients see it. The order of the tools, their other
// members and those of the result stay as they are. A page may become empty.
func (s *Set) list(result json.RawMessage) (json.RawMessage, error) {
	tools, err := mcp.ReadList(result, "tools", "name")
	if err != nil {
		return nil, err
	}
	for _, t := range tools.Items {
		s.observe(t.Name)
	}
	shown := make([]json.RawMessage, 0, len(tools.Items))
	for _, t := range tools.Items {
		if _, hidden := s.show(t); hidden != Visible {
			continue
		}
		raw, err := s.edit(t)
		if err != nil {
			return nil, err
		}
		shown = append(shown, raw)
	}
	return tools.With(shown), nil
}

// edit returns a tool with the name and the description of its override.
func (s *Set) edit(t mcp.Item) (json.RawMessage, error) {
	e, ok := s.edits[t.Name]
	if !ok {
		return t.Raw, nil
	}
	raw := t.Raw
	var err error
	if e.name != nil {
		if raw, err = mcp.Set(raw, e.name, "name"); err != nil {
			return nil, err
		}
	}
	if e.description != nil {
		raw, err = mcp.Set(raw, e.description, "description")
	}
	return raw, err
}
