package mcpcmd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// askingServer has the tool form, which elicits the fields of schema.
func askingServer(t *testing.T, stateless bool, schema string) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "asking", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "form"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["it"].(*sdk.ElicitResult); ok {
			b, err := json.Marshal(answer.Content)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Action + " " + string(b)}}}, nil, err
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"it": &sdk.ElicitParams{
			Mode: "form", Message: "Who\x1b[2J are you?", RequestedSchema: json.RawMessage(schema),
		}}}, nil, nil
	})
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
	// Close would wait for a DELETE that the SDK's server answers only after the
	// elicitation, whose client is gone.
	t.Cleanup(func() { s.Config.Close() })
	return s.URL
}

func TestElicitationWithoutATerminal(t *testing.T) {
	for _, protocol := range []string{"session", "stateless"} {
		at := askingServer(t, protocol == "stateless", `{"type":"object","properties":{"name":{"type":"string"}}}`)
		stdout, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "call", at, "form", "--protocol", protocol)
		if code != base.ExitOK || stdout != "decline null\n" || stderr != "Note: the server asks for input; declined, because there is no terminal to answer it at: Who are you?\n" {
			t.Errorf("--protocol %s: exit code %d, %q, %q", protocol, code, stdout, stderr)
		}
	}
}
