package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// errNotWhole: a server said null, or nothing, where the schema of MCP has an object.
// The SDK passes that on as a nil pointer.
var errNotWhole = errors.New("the server's answer lacks what must be in it")

// wholeAnswers refuses answers that are not whole, for all that reads them.
func wholeAnswers(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if err == nil && !whole(result) {
			return nil, errNotWhole
		}
		return result, err
	}
}

// whole leaves out lists of tools: the SDK itself drops their empty places.
func whole(result sdk.Result) bool {
	switch r := result.(type) {
	case *sdk.ListResourcesResult:
		return !slices.Contains(r.Resources, nil)
	case *sdk.ListResourceTemplatesResult:
		return !slices.Contains(r.ResourceTemplates, nil)
	case *sdk.ListPromptsResult:
		return !slices.ContainsFunc(r.Prompts, func(p *sdk.Prompt) bool { return p == nil || slices.Contains(p.Arguments, nil) })
	case *sdk.ReadResourceResult:
		return !slices.Contains(r.Contents, nil)
	case *sdk.GetPromptResult:
		return !slices.ContainsFunc(r.Messages, func(m *sdk.PromptMessage) bool { return m == nil || hollow(m.Content) })
	case *sdk.CallToolResult:
		return !slices.ContainsFunc(r.Content, hollow)
	}
	return true
}

// hollow: an embedded resource without the resource.
func hollow(c sdk.Content) bool {
	e, ok := c.(*sdk.EmbeddedResource)
	return ok && e.Resource == nil
}

// wholeQuestions refuses an elicitation without parameters, which the SDK takes for
// one that has some (JSON-RPC 2.0 section 5.1: -32602).
func wholeQuestions(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if e, ok := req.(*sdk.ElicitRequest); ok && e.Params == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request has no params"}
		}
		return next(ctx, method, req)
	}
}
