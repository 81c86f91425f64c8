package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// question is one that a tool asks its client, in either era.
type question struct {
	tool   string
	params func() mcp.InputRequest
	// request asks a client with a session.
	request func(context.Context, *mcp.ServerSession) (mcp.InputResponse, error)
	answer  func(mcp.InputResponse) (string, error)
}

//nolint:staticcheck // deprecated parts of the protocol are served, so they are shown
func addQuestions(s *mcp.Server) {
	sampling := func() *mcp.CreateMessageParams {
		return &mcp.CreateMessageParams{MaxTokens: 10, SystemPrompt: "be brief", Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello?"}}}}
	}
	form := func() *mcp.ElicitParams {
		return &mcp.ElicitParams{Mode: "form", Message: "who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)}
	}
	for _, q := range []question{
		{
			"sample", func() mcp.InputRequest { return sampling() },
			func(ctx context.Context, c *mcp.ServerSession) (mcp.InputResponse, error) {
				return c.CreateMessage(ctx, sampling())
			},
			func(a mcp.InputResponse) (string, error) {
				switch a := a.(type) {
				case *mcp.CreateMessageResult:
					return fmt.Sprint(a.Role, " ", a.Model, ": ", text(a.Content)), nil
				case *mcp.CreateMessageWithToolsResult:
					return fmt.Sprint(a.Role, " ", a.Model, ": ", text(a.Content[0])), nil
				}
				return "", fmt.Errorf("a %T is no answer", a)
			},
		},
		{
			"elicit", func() mcp.InputRequest { return form() },
			func(ctx context.Context, c *mcp.ServerSession) (mcp.InputResponse, error) {
				return c.Elicit(ctx, form())
			},
			func(a mcp.InputResponse) (string, error) {
				r, ok := a.(*mcp.ElicitResult)
				if !ok {
					return "", fmt.Errorf("a %T is no answer", a)
				}
				return fmt.Sprint(r.Action, " ", r.Content["name"]), nil
			},
		},
		{
			"roots", func() mcp.InputRequest { return &mcp.ListRootsParams{} },
			func(ctx context.Context, c *mcp.ServerSession) (mcp.InputResponse, error) {
				return c.ListRoots(ctx, nil)
			},
			func(a mcp.InputResponse) (string, error) {
				r, ok := a.(*mcp.ListRootsResult)
				if !ok {
					return "", fmt.Errorf("a %T is no answer", a)
				}
				var all string
				for _, root := range r.Roots {
					all += root.Name + " " + root.URI + "\n"
				}
				return all, nil
			},
		},
	} {
		q.add(s)
	}
}

func text(c mcp.Content) string {
	if t, ok := c.(*mcp.TextContent); ok {
		return t.Text
	}
	return fmt.Sprintf("%T", c)
}

func (q question) add(s *mcp.Server) {
	s.AddTool(&mcp.Tool{Name: q.tool, Description: "asks its client", InputSchema: json.RawMessage(object)},
		func(ctx context.Context, r *call) (*mcp.CallToolResult, error) {
			answer := r.Params.InputResponses["q"]
			if r.ProtocolVersion() >= stated {
				if answer == nil {
					return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": q.params()}, RequestState: "state of " + q.tool}, nil
				}
				if r.Params.RequestState != "state of "+q.tool {
					return nil, fmt.Errorf("the state is %q", r.Params.RequestState)
				}
			} else {
				var err error
				if answer, err = q.request(ctx, r.Session); err != nil {
					return nil, err
				}
			}
			said, err := q.answer(answer)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
		})
}
