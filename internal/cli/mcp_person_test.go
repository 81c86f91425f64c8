package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// askingServer has tools that ask their client: form, for the fields of schema,
// and model, for an answer of a language model.
func askingServer(t *testing.T, stateless bool, schema string) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "asking", Version: "1"}, nil)
	type none struct{}
	sdk.AddTool(server, &sdk.Tool{Name: "form"}, func(_ context.Context, r *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["it"].(*sdk.ElicitResult); ok {
			b, err := json.Marshal(answer.Content)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Action + " " + string(b)}}}, nil, err
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"it": &sdk.ElicitParams{
			Mode: "form", Message: "Who\x1b[2J are you?", RequestedSchema: json.RawMessage(schema),
		}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "model"}, func(_ context.Context, r *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"it": &sdk.CreateMessageParams{
			Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "?"}}}, MaxTokens: 1,
		}}}, nil, nil
	})
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestWithoutATerminalAServersQuestionIsDeclinedWithANote(t *testing.T) {
	for _, protocol := range []string{"session", "stateless"} {
		at := askingServer(t, protocol == "stateless", `{"type":"object","properties":{"name":{"type":"string"}}}`)
		stdout, stderr, code := thv(t, testApp(t), "mcp", "call", at, "form", "--protocol", protocol)
		if code != exitOK || stdout != "decline null\n" || stderr != "Note: the server asks for input, and there is no terminal to ask at; thv declined. It asked: Who are you? (name)\n" {
			t.Errorf("a form with --protocol %s: exit code %d, %q, %q", protocol, code, stdout, stderr)
		}
		stdout, stderr, code = thv(t, testApp(t), "mcp", "call", at, "model", "--protocol", protocol)
		if code != exitFailure || stdout != "" || !strings.HasPrefix(stderr, "Note: the server asks for an answer of a language model; thv has none and declined\nError: call model: ") {
			t.Errorf("a model with --protocol %s: exit code %d, %q, %q", protocol, code, stdout, stderr)
		}
	}
}

func TestAFormReadsWhatIsTyped(t *testing.T) {
	const schema = `{"type":"object","required":["n","s"],"properties":{
		"s":{"type":"string","description":"a \u001b[1mword"},"n":{"type":"integer"},"f":{"type":"number","default":1.5},"b":{"type":"boolean","title":"sure"},
		"e":{"type":"string","enum":["x","y"],"enumNames":["Ex","Why"]},"o":{"type":"string","oneOf":[{"const":"p","title":"Pe"}]},
		"m":{"type":"array","items":{"anyOf":[{"const":"u","title":"U"},{"const":"v"}]}},"k":{"type":"array","items":{"type":"string","enum":["q"]}}}}`
	form, err := newForm(&sdk.ElicitParams{Message: "m", RequestedSchema: json.RawMessage(schema)})
	if err != nil {
		t.Fatal(err)
	}
	var prompts []string
	fields := map[string]field{}
	for _, f := range form.fields {
		fields[f.name] = f
		prompts = append(prompts, f.prompt())
	}
	if diff := cmp.Diff([]string{
		"  n (integer): ", "  s (string) a word: ", "  b (yes or no, optional) sure: ",
		"  e (one of the choices, optional)\n    1) x Ex\n    2) y Why\n   : ", "  f (number, optional) [1.5]: ",
		"  k (some of the choices, separated by commas, optional)\n    1) q\n   : ",
		"  m (some of the choices, separated by commas, optional)\n    1) u U\n    2) v\n   : ", "  o (one of the choices, optional)\n    1) p Pe\n   : ",
	}, prompts); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		name, line string
		want       any // nil: left out
		fault      string
	}{
		{"s", "5", "5", ""}, {"s", "", nil, "this is required"},
		{"n", "12", int64(12), ""}, {"n", "1.5", nil, "whole number"}, {"n", "x", nil, "whole number"}, {"n", "", nil, "this is required"},
		{"f", "2", 2.0, ""}, {"f", "NaN", nil, "write a number"}, {"f", "", 1.5, ""},
		{"b", "Yes", true, ""}, {"b", "false", false, ""}, {"b", "", nil, ""}, {"b", "maybe", nil, "yes or no"},
		{"e", "x", "x", ""}, {"e", "2", "y", ""}, {"e", "3", nil, "none of the choices"}, {"e", "z", nil, "none of the choices"},
		{"o", "1", "p", ""}, {"m", "u, 2", []any{"u", "v"}, ""}, {"m", "u,", nil, "none of the choices"}, {"k", "q", []any{"q"}, ""},
	} {
		got, err := fields[c.name].parse(c.line)
		if diff := cmp.Diff(c.want, got); diff != "" || fmt.Sprint(err) != "<nil>" && c.fault == "" || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %q: %v %s", c.name, c.line, err, diff)
		}
	}
	for name, p := range map[string]*sdk.ElicitParams{
		"of a page":         {Mode: "url", URL: "http://x"},
		"of another schema": {RequestedSchema: json.RawMessage(`{"properties":{"a":[]}}`)},
		"of many fields":    {RequestedSchema: json.RawMessage(`{"properties":{"a":{}` + many(maxFields) + `}}`)},
	} {
		if _, err := newForm(p); err == nil {
			t.Errorf("a form %s is shown", name)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":{}`, i)
	}
	return b.String()
}
