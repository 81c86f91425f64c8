package mcpcmd_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// storyServer offers a prompt, a template, and resources with all kinds of content.
func storyServer(t *testing.T) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "story", Version: "1"}, nil)
	server.AddPrompt(&sdk.Prompt{Name: "write", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: "Write about " + r.Params.Arguments["who"] + "."}},
			{Role: "assistant", Content: &sdk.ImageContent{MIMEType: "image/png", Data: []byte("abc")}},
		}}, nil
	})
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "story://{id}", Name: "a story", MIMEType: "text/plain", Description: "One.\nMore."}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "of " + r.Params.URI}}}, nil
	})
	for name, c := range map[string]*sdk.ResourceContents{"text": {Text: "a\r\nb\x1b[2Jc\n"}, "bytes": {MIMEType: "image/png", Blob: []byte("\x89\x00\r\n\xff")}, "empty": {}} {
		c.URI = "story://made/" + name
		server.AddResource(&sdk.Resource{URI: c.URI, Name: name}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
		})
	}
	for name, content := range map[string][]sdk.Content{
		"text": {&sdk.TextContent{Text: "a\r\n\x1b[2Jb"}}, "two": {&sdk.TextContent{Text: "a\n"}, &sdk.ImageContent{MIMEType: "image/png\r\n", Data: []byte{0, 1}}},
		"image": {&sdk.ImageContent{MIMEType: "image/png", Data: []byte{0, '\r', 1}}}, "sound": {&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte{2}}},
		"embedded": {&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:y", Blob: []byte{3}}}},
	} {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: content}, nil, nil
		})
	}
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestPromptsAndTemplates(t *testing.T) {
	at := storyServer(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"templates", at}, "story://{id}\ta story\ttext/plain\tOne.\n"},
		{[]string{"prompts", at}, "write\twho\t\n"},
		{[]string{"prompt", at, "write", "--arg", "who=5"}, "user: Write about 5.\nassistant: [image, image/png, 3 bytes]\n"},
	} {
		if got := clitest.Must(t, clitest.App(t), append([]string{"mcp"}, c.args...)...); got != c.want {
			t.Errorf("mcp %v prints %q, want %q", c.args, got, c.want)
		}
	}
	if _, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "prompt", at, "write", "--arg", "who"); code != base.ExitUsage || stderr != "Error: --arg who: write NAME=VALUE\n" {
		t.Errorf("a bad --arg: exit code %d, %q", code, stderr)
	}
	if _, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "prompt", at, "none"); code != base.ExitFailure || stderr != "Error: get prompt none: unknown prompt \"none\" (JSON-RPC error -32602)\n" {
		t.Errorf("no such prompt: exit code %d, %q", code, stderr)
	}
}

func TestContentIsUnchangedInAPipe(t *testing.T) {
	at := storyServer(t)
	for _, c := range [][3]string{
		{"read", "story://made/text", "a\r\nb\x1b[2Jc\n"}, {"read", "story://made/bytes", "\x89\x00\r\n\xff"}, {"read", "story://made/empty", ""}, {"read", "story://1", "of story://1"},
		{"call", "text", "a\r\n\x1b[2Jb\n"}, {"call", "two", "a\n[image, image/png, 2 bytes]\n"}, {"call", "image", "\x00\r\x01"}, {"call", "sound", "\x02"}, {"call", "embedded", "\x03"},
	} {
		if got := clitest.Must(t, clitest.App(t), "mcp", c[0], at, c[1]); got != c[2] {
			t.Errorf("mcp %s %s writes %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
