// Goclient is the Go SDK's client in the steps of the corners:
//
//	goclient URL streamable|sse VERSION KEY
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	patience  = 15 * time.Second
	stateless = "2026-07-28"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: goclient URL streamable|sse VERSION KEY")
	}
	c := &client{version: os.Args[3], key: os.Args[4], progress: make(chan string, 100), logs: make(chan string, 100), updated: make(chan string, 100), changed: make(chan string, 100)}
	if err := c.run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// say prints what was seen in a step, or the error that was seen instead.
func say(step string, got any, err error) {
	if err != nil {
		seen := map[string]any{"error": err.Error()}
		if rpc := (*jsonrpc.Error)(nil); errors.As(err, &rpc) {
			seen = map[string]any{"code": rpc.Code, "message": rpc.Message}
		}
		got = seen
	}
	line, err := json.Marshal(map[string]any{"step": step, "got": got})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}

type client struct {
	version, key                     string
	session                          *mcp.ClientSession
	progress, logs, updated, changed chan string
}

//nolint:staticcheck // deprecated parts of the protocol are served, so they are shown
func (c *client) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		CreateMessageHandler: func(_ context.Context, q *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			said, _ := q.Params.Messages[0].Content.(*mcp.TextContent)
			return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: "re: " + said.Text}}, nil
		},
		ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if q.Params.Message != "who?" {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, p *mcp.ProgressNotificationClientRequest) {
			if p.Params.ProgressToken == "token "+c.key {
				c.progress <- fmt.Sprintf("%v/%v %s", p.Params.Progress, p.Params.Total, p.Params.Message)
			}
		},
		LoggingMessageHandler: func(_ context.Context, l *mcp.LoggingMessageRequest) {
			c.logs <- fmt.Sprint(l.Params.Level, " ", l.Params.Logger, " ", l.Params.Data)
		},
		ResourceUpdatedHandler: func(_ context.Context, u *mcp.ResourceUpdatedNotificationRequest) { c.updated <- u.Params.URI },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- "changed" },
	}
}

//nolint:staticcheck // deprecated parts of the protocol are served, so they are shown
func (c *client) run(url, transport string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sdk := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, c.options())
	sdk.AddRoots(&mcp.Root{Name: "home", URI: "file:///home/ada"})
	var via mcp.Transport = &mcp.StreamableClientTransport{Endpoint: url}
	if transport == "sse" {
		via = &mcp.SSEClientTransport{Endpoint: url}
	}
	session, err := sdk.Connect(ctx, via, &mcp.ClientSessionOptions{ProtocolVersion: c.version})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.session = session
	met := session.InitializeResult()
	say("server", map[string]any{"name": met.ServerInfo.Name, "version": met.ServerInfo.Version, "protocol": met.ProtocolVersion, "instructions": met.Instructions}, nil)
	c.lists(ctx)
	c.calls(ctx)
	c.told(ctx)
	c.asked(ctx)
	c.resources(ctx)
	c.cancelled(ctx)
	return session.Close()
}

func (c *client) lists(ctx context.Context) {
	var names []string
	var echo *mcp.Tool
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			say("tools", nil, err)
			return
		}
		names = append(names, tool.Name)
		if tool.Name == "echo" {
			echo = tool
		}
	}
	say("tools", names, nil)
	say("tool", echo, nil)
	uris := []string{}
	for r, err := range c.session.Resources(ctx, nil) {
		if err != nil {
			say("resources", nil, err)
			return
		}
		uris = append(uris, r.URI)
	}
	for r, err := range c.session.ResourceTemplates(ctx, nil) {
		if err != nil {
			say("resources", nil, err)
			return
		}
		uris = append(uris, r.URITemplate)
	}
	say("resources", uris, nil)
	prompt, err := c.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}})
	if err != nil {
		say("prompt", nil, err)
		return
	}
	said, _ := prompt.Messages[0].Content.(*mcp.TextContent)
	say("prompt", said.Text, nil)
	done, err := c.session.Complete(ctx, &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "A"}})
	if err != nil {
		say("completion", nil, err)
		return
	}
	say("completion", done.Completion.Values, nil)
}

// text calls a tool and returns its one text.
func (c *client) text(ctx context.Context, tool string, args any) (string, error) {
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	return textOf(result, err)
}

func textOf(result *mcp.CallToolResult, err error) (string, error) {
	if err != nil {
		return "", err
	}
	said, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("a %T is no text", result.Content[0])
	}
	if result.IsError {
		return "error: " + said.Text, nil
	}
	return said.Text, nil
}

// region calls a tool of which a parameter goes into a header, which the SDK learns
// from the list. When that changes it forgets it, which another client's doing may
// bring about at any time, and the list must be read again (MCP 2026-07-28, Custom
// Headers from Tool Parameters).
func (c *client) region(ctx context.Context) (got string, err error) {
	const headerMismatch = -32020
	for range 10 {
		got, err = c.text(ctx, "region", map[string]any{"region": "eu west ä"})
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != headerMismatch {
			break
		}
		if _, err := c.session.ListTools(ctx, nil); err != nil {
			return "", err
		}
	}
	return got, err
}

type keyed struct {
	Key string `json:"key"`
}

func (c *client) calls(ctx context.Context) {
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"n": 9007199254740991, "text": "ä€ \"\n\u2028<>&"}})
	text, _ := textOf(result, err)
	say("echo", text, err)
	if err == nil {
		say("structured", result.StructuredContent, nil)
	}
	got, err := c.region(ctx)
	say("region", got, err)
	got, err = c.text(ctx, "spoken", map[string]any{})
	say("spoken", got, err)
	got, err = c.text(ctx, "fail", map[string]any{})
	say("failing tool", got, err)
	got, err = c.text(ctx, "no such tool", map[string]any{})
	say("unknown tool", got, err)
}

// take is what comes next, or that nothing does.
func take(from chan string) string {
	select {
	case s := <-from:
		return s
	case <-time.After(patience):
		return "nothing came"
	}
}

func many(n int, from chan string) (all []string) {
	for range n {
		s := take(from)
		all = append(all, s)
		if s == "nothing came" {
			break
		}
	}
	return all
}

//nolint:staticcheck // deprecated parts of the protocol are served, so they are shown
func (c *client) told(ctx context.Context) {
	params := &mcp.CallToolParams{Name: "progress", Arguments: keyed{c.key}}
	params.SetProgressToken("token " + c.key)
	done := make(chan string, 1)
	go func() {
		text, err := textOf(c.session.CallTool(ctx, params))
		if err != nil {
			text = err.Error()
		}
		done <- text
	}()
	heard := many(5, c.progress)
	_, err := c.text(ctx, "enough", keyed{c.key})
	say("progress", append(heard, <-done), err)

	log := &mcp.CallToolParams{Name: "log", Arguments: keyed{c.key}}
	if c.version == stateless {
		log.Meta = mcp.Meta{"io.modelcontextprotocol/logLevel": "info"}
	} else if err := c.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		say("log", nil, err)
		return
	}
	_, err = c.session.CallTool(ctx, log)
	say("log", many(3, c.logs), err)
}

func (c *client) asked(ctx context.Context) {
	for _, tool := range []string{"sample", "elicit", "roots"} {
		got, err := c.text(ctx, tool, map[string]any{})
		say(tool, got, err)
	}
}

func (c *client) resources(ctx context.Context) {
	read, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "corner://fixed"})
	if err != nil {
		say("resource", nil, err)
	} else {
		say("resource", read.Contents[0].Text, nil)
	}
	_, err = c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "corner://kept/missing"})
	say("missing resource", "it is there", err)

	uri := "corner://kept/" + c.key
	if err := c.session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		say("updated", nil, err)
	} else {
		_, err := c.text(ctx, "touch", keyed{c.key})
		say("updated", take(c.updated), err)
		say("unsubscribed", "", c.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}))
	}
	_, err = c.text(ctx, "grow", map[string]any{})
	say("list changed", take(c.changed), err)
}

func (c *client) cancelled(ctx context.Context) {
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := c.text(waiting, "wait", keyed{c.key})
		ended <- err
	}()
	c.became(ctx, "it is waiting")
	cancel()
	err := <-ended
	say("cancelled", map[string]any{"server": c.became(ctx, "it is cancelled"), "client": errors.Is(err, context.Canceled)}, nil)
	got, err := c.text(ctx, "grown", map[string]any{})
	say("afterwards", got, err)
}

// became asks until the waiting call is as it is to be.
func (c *client) became(ctx context.Context, want string) string {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got, err := c.text(ctx, "became", keyed{c.key})
		if err != nil {
			return err.Error()
		}
		if got == want || time.Now().After(end) {
			return got
		}
	}
}
