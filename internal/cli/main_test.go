package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// longEnough bounds every wait of a test for something that must happen.
const longEnough = time.Minute

// asProgram makes this test, started again, the program thv.
const asProgram = "THV_TEST_AS_PROGRAM"

// The program that Manager starts as `thv owner NAME` is this test itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "owner" || os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// livingApp is an App whose workloads really run: owners are processes of their
// own. It has no engine. At the end nothing of it runs.
func livingApp(t *testing.T) *App {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv") // short: sockets live in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, value := range map[string]string{
		"HOME": dir, "XDG_STATE_HOME": filepath.Join(dir, "s"), "XDG_CONFIG_HOME": filepath.Join(dir, "c"), "XDG_RUNTIME_DIR": filepath.Join(dir, "r"),
		"THV_ENGINE": "unix://" + filepath.Join(dir, "none.sock"), EnvStartTimeout: "60s",
	} {
		t.Setenv(name, value)
	}
	a := &App{Env: os.Getenv}
	t.Cleanup(func() {
		m, err := a.Manager()
		if err != nil {
			t.Error(err)
			return
		}
		all, err := m.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, st := range all {
			if err := m.Remove(context.Background(), st.Name, nil); err != nil {
				t.Errorf("rm %s: %v", st.Name, err)
			}
		}
	})
	return a
}

// remoteServer is an MCP server at a URL: tool echo, tool fail, a resource, a
// prompt. seen, which may be nil, is shown every request.
func remoteServer(t *testing.T, seen func(*http.Request)) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
		N    int    `json:"n,omitempty"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "Says it again.\nMore."}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat(in.Text, max(in.N, 1))}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no \x1b[31mway"}}}, nil, nil
	})
	server.AddResource(&sdk.Resource{URI: "test://a", Name: "a", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://a", Text: "content of a"}}}, nil
	})
	server.AddPrompt(&sdk.Prompt{Name: "ask", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{}, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		handler.ServeHTTP(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections() // gateways hold streams open
		s.Close()
	})
	return s.URL + "/mcp"
}
