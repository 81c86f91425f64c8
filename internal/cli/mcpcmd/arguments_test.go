package mcpcmd_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// echoServer has tools whose result is the arguments they received, and the header
// that repeats one of them.
func echoServer(t *testing.T, stateless bool) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "echo", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"ns":{"type":["null","string","number"]},
		"opt":{"anyOf":[{"type":"string"},{"type":"null"}]},"any":{},"ref":{"$ref":"#/x"}}}`)
	say := func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		text := string(r.Params.Arguments)
		if where := r.Extra.Header.Get("Mcp-Param-Where"); where != "" {
			text += " at " + where
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	}
	server.AddTool(&sdk.Tool{Name: "say", InputSchema: schema}, say)
	server.AddTool(&sdk.Tool{Name: "where", InputSchema: json.RawMessage(`{"type":"object","properties":{"h":{"type":"string","x-mcp-header":"Where"}}}`)}, say)
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestCall_ArgumentTypes(t *testing.T) {
	at := map[string]string{"session": echoServer(t, false), "stateless": echoServer(t, true)}
	for arg, want := range map[string]string{
		"s=5": `{"s":"5"}`, "s=true": `{"s":"true"}`, `s="x"`: `{"s":"\"x\""}`, "s={}": `{"s":"{}"}`, "s=": `{"s":""}`, "s=a b": `{"s":"a b"}`,
		"n=5": `{"n":5}`, "n=12345678901234567890123": `{"n":12345678901234567890123}`, "n=x": `{"n":"x"}`, "n=true": `{"n":true}`,
		"ns=5":  `{"ns":"5"}`,
		"opt=5": `{"opt":"5"}`, "opt=null": `{"opt":"null"}`,
		"any=5": `{"any":5}`, "any=[1]": `{"any":[1]}`, `any="5"`: `{"any":"5"}`, "any=1 2": `{"any":"1 2"}`, "other=1.50": `{"other":1.50}`, "ref=5": `{"ref":5}`,
	} {
		for protocol, url := range at {
			if got := clitest.Must(t, clitest.App(t), "mcp", "call", url, "say", "--protocol", protocol, "--arg", arg); got != want+"\n" {
				t.Errorf("--arg %s with --protocol %s sends %q, want %q", arg, protocol, got, want)
			}
		}
	}
	// An argument whose schema has x-mcp-header is repeated in a header.
	for _, args := range [][]string{{"--arg", "h=x"}, {"--json", `{"h":"x"}`}} {
		if got := clitest.Must(t, clitest.App(t), append([]string{"mcp", "call", at["stateless"], "where"}, args...)...); got != "{\"h\":\"x\"} at x\n" {
			t.Errorf("%v: %q", args, got)
		}
	}
}

func TestCall_ArgumentsFromFile(t *testing.T) {
	at := echoServer(t, false)
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, []byte("{\"s\":\"from a file\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := clitest.Must(t, clitest.App(t), "mcp", "call", at, "say", "--json", "@"+file); got != "{\"s\":\"from a file\"}\n" {
		t.Errorf("from a file: %q", got)
	}
	for _, c := range [][2]string{{"@" + file + "x", "no such file"}, {"-", "not a JSON object"}, {"{} {}", "not a JSON object"}, {"null", "not a JSON object"}} {
		if _, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "call", at, "say", "--json", c[0]); code != base.ExitUsage || !strings.Contains(stderr, "--json: ") || !strings.Contains(stderr, c[1]) {
			t.Errorf("--json %s: exit code %d, %s", c[0], code, stderr)
		}
	}
}

func TestCall_InterruptWhileReadingStandardInput(t *testing.T) {
	app := clitest.App(t)
	in, typing := io.Pipe()
	defer typing.Close()
	app.In, app.Out, app.Err = in, io.Discard, io.Discard
	root := cli.Root(app)
	root.SetArgs([]string{"mcp", "call", "http://127.0.0.1:1/mcp", "tool", "--json", "-"})
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	if _, err := typing.Write([]byte("{")); err != nil { // it is being read
		t.Fatal(err)
	}
	interrupt()
	select {
	case err := <-done:
		if base.ExitCode(err) != base.ExitInterrupted {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(clitest.LongEnough):
		t.Error("the command still reads")
	}
}
