package toolset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// run sends one request through the stage. server returns the result of the request that it
// receives; sent is that request, nil if none arrived.
func run(s *Set, m *mcp.Message, result string) (answer *mcp.Message, sent *exchange.Exchange, err error) {
	handler := s.Stage(func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		sent = x
		return mcp.NewResult(x.Request.ID, json.RawMessage(result)), nil
	})
	answer, err = handler(context.Background(), &exchange.Exchange{Request: m})
	return answer, sent, err
}

func request(method, params string) *mcp.Message {
	return &mcp.Message{ID: mcp.IntID(7), Method: method, Params: json.RawMessage(params)}
}

// named are tools of those names.
func named(names ...string) []Tool {
	var tools []Tool
	for _, name := range names {
		tools = append(tools, Tool{Name: name, JSON: json.RawMessage(`{"name":"` + name + `"}`)})
	}
	return tools
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestStage_List(t *testing.T) {
	const page = `{"_meta":{"x":1},"tools":[{"name":"add","description":"adds","inputSchema":{"type":"object","x":[1, 2]}},{"name":"sub","title":"Subtract"},{"name":"mul"}],"nextCursor":"2","ttlMs":5}`
	for _, row := range []struct {
		name       string
		cfg        Config
		page, want string
	}{
		{"a filter", Config{Filter: []string{"mul", "add"}}, page,
			`{"_meta":{"x":1},"tools":[{"name":"add","description":"adds","inputSchema":{"type":"object","x":[1, 2]}},{"name":"mul"}],"nextCursor":"2","ttlMs":5}`},
		{"a page without any", Config{Filter: []string{"div"}}, page, `{"_meta":{"x":1},"tools":[],"nextCursor":"2","ttlMs":5}`},
		{"another name", Config{Overrides: map[string]Override{"sub": {Name: "minus"}}}, page,
			strings.Replace(page, `"sub"`, `"minus"`, 1)},
		{"another description", Config{Overrides: map[string]Override{"add": {Description: `a "sum"`}}}, page,
			strings.Replace(page, `"adds"`, `"a \"sum\""`, 1)},
		{"a description for a tool without one", Config{Overrides: map[string]Override{"mul": {Description: "d"}}}, page,
			strings.Replace(page, `{"name":"mul"}`, `{"description":"d","name":"mul"}`, 1)},
		{"the filter uses the new name", Config{Overrides: map[string]Override{"sub": {Name: "minus"}}, Filter: []string{"minus"}}, page,
			`{"_meta":{"x":1},"tools":[{"name":"minus","title":"Subtract"}],"nextCursor":"2","ttlMs":5}`},
		{"two names exchanged", Config{Overrides: map[string]Override{"add": {Name: "mul"}, "mul": {Name: "add"}}},
			`{"tools":[{"name":"add"},{"name":"mul"}]}`, `{"tools":[{"name":"mul"},{"name":"add"}]}`},
		{"a name that another tool has", Config{Overrides: map[string]Override{"add": {Name: "mul"}}},
			`{"tools":[{"name":"add"},{"name":"sub"},{"name":"mul"}]}`, `{"tools":[{"name":"sub"}]}`},
		{"escapes in a name", Config{Filter: []string{"sub"}}, `{"tools":[{"name":"\u0061dd"},{"name":"\u0073ub"}]}`, `{"tools":[{"name":"\u0073ub"}]}`},
		{"no tools", Config{Filter: []string{"sub"}}, `{"tools":[]}`, `{"tools":[]}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := row.cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			answer, sent, err := run(New(row.cfg, quiet()), request(mcp.MethodToolsList, `{"cursor":"1"}`), row.page)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, string(answer.Result)); diff != "" {
				t.Error(diff)
			}
			if answer.ID != mcp.IntID(7) || string(sent.Request.Params) != `{"cursor":"1"}` {
				t.Errorf("id %s, sent %s", answer.ID, sent.Request.Params)
			}
		})
	}
}

// A list that cannot be read is an error: a part of it might be a tool that is filtered out.
func TestStage_UnreadableList(t *testing.T) {
	s := New(Config{Filter: []string{"a"}}, quiet())
	for _, result := range []string{
		``, `null`, `[]`, `{}`, `{"tools":null}`, `{"tools":{"name":"b"}}`, `{"tools":["b"]}`, `{"tools":[{"name":1}]}`, `{"tools":[{}]}`,
		`{"tools":[{"name":"a","name":"b"}]}`, `{"tools":[{"name":"a","Name":"b"}]}`, `{"tools":[],"tools":[{"name":"b"}]}`, `{"tools":[],"Tools":[{"name":"b"}]}`,
		`{"tools":[{"name":"a"}`,
	} {
		answer, _, err := run(s, request(mcp.MethodToolsList, `{}`), result)
		var rpc *mcp.Error
		if !errors.As(err, &rpc) || rpc.Code != mcp.CodeServerGone || !strings.HasPrefix(rpc.Message, "the server's list of tools cannot be read: ") {
			t.Errorf("%s: %v, %v", result, answer, err)
		}
	}
}

func TestStage_ErrorsOfTheListPass(t *testing.T) {
	handler := New(Config{Filter: []string{"a"}}, quiet()).Stage(func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		return mcp.NewError(x.Request.ID, mcp.CodeMethodNotFound, "no tools here"), nil
	})
	answer, err := handler(t.Context(), &exchange.Exchange{Request: request(mcp.MethodToolsList, `{}`)})
	if err != nil || answer.Error == nil || answer.Error.Message != "no tools here" {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestStage_Call(t *testing.T) {
	cfg := Config{Filter: []string{"plus", "mul", "div"}, Overrides: map[string]Override{"add": {Name: "plus"}, "mul": {Description: "x"}}}
	open := Config{Overrides: map[string]Override{"add": {Name: "plus"}, "mul": {Name: "add"}}}
	for _, row := range []struct {
		name         string
		cfg          Config
		params, want string // want are the params that the server receives
		fault        string
	}{
		{"a new name", cfg, `{"arguments":{"name":"plus"},"name":"plus","_meta":{"a":1}}`, `{"arguments":{"name":"plus"},"name":"add","_meta":{"a":1}}`, ""},
		{"a name with escapes", cfg, `{"name":"pl\u0075s"}`, `{"name":"add"}`, ""},
		{"a name that is kept", cfg, `{"name":"mul"}`, `{"name":"mul"}`, ""},
		{"a name that the server may have", cfg, `{"name":"div"}`, `{"name":"div"}`, ""},
		{"a tool that is filtered out", cfg, `{"name":"sub"}`, "", "Unknown tool: sub"},
		{"the server's name of a renamed tool", cfg, `{"name":"add"}`, "", "Unknown tool: add"},
		{"the same without a filter", Config{Overrides: map[string]Override{"add": {Name: "plus"}}}, `{"name":"add"}`, "", "Unknown tool: add"},
		{"a name that moved on", open, `{"name":"add"}`, `{"name":"mul"}`, ""},
		{"the name that it left", open, `{"name":"mul"}`, "", "Unknown tool: mul"},
		{"another tool without a filter", open, `{"name":"sub"}`, `{"name":"sub"}`, ""},
		{"no name", cfg, `{}`, "", "params.name is missing"},
		{"no params", cfg, ``, "", "params.name is missing"},
		{"a number", cfg, `{"name":1}`, "", "name must be a string"},
		{"a name twice", cfg, `{"name":"mul","name":"sub"}`, "", `the key "name" is there twice`},
		{"a name in another spelling", cfg, `{"name":"mul","Name":"sub"}`, "", `the key "Name" is another spelling of "name"`},
		{"a long name", cfg, `{"name":"` + strings.Repeat("x", 1000) + `"}`, "", "Unknown tool: " + strings.Repeat("x", 256) + "…"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := request(mcp.MethodToolsCall, row.params)
			_, sent, err := run(New(row.cfg, quiet()), m, `{}`)
			if row.fault != "" {
				var rpc *mcp.Error
				if !errors.As(err, &rpc) || rpc.Code != mcp.CodeInvalidParams || rpc.Message != row.fault || sent != nil {
					t.Errorf("got %v, want %q; sent %v", err, row.fault, sent)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, string(sent.Request.Params)); diff != "" {
				t.Error(diff)
			}
			if string(m.Params) != row.params {
				t.Errorf("the client's own request was changed to %s", m.Params)
			}
			if sent.Request.ID != m.ID {
				t.Errorf("sent with id %s", sent.Request.ID)
			}
		})
	}
}

func TestStage_OtherMethodsPass(t *testing.T) {
	s := New(Config{Filter: []string{"a"}}, quiet())
	for _, method := range []string{mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodComplete, mcp.MethodPing, "tasks/get"} {
		m := request(method, `{"name":"b"}`)
		answer, sent, err := run(s, m, `{"tools":[{"name":"b"}]}`)
		if err != nil || sent.Request != m || string(answer.Result) != `{"tools":[{"name":"b"}]}` {
			t.Errorf("%s: %v, %v", method, answer, err)
		}
	}
}

// An override to a name that another tool has is refused for both, and logged once.
func TestSet_AmbiguousName(t *testing.T) {
	var log bytes.Buffer
	s := New(Config{Overrides: map[string]Override{"add": {Name: "sum"}}}, slog.New(slog.NewTextHandler(&log, nil)))
	call := func() error {
		_, _, err := run(s, request(mcp.MethodToolsCall, `{"name":"sum"}`), `{}`)
		return err
	}
	if err := call(); err != nil {
		t.Errorf("before the list is known: %v", err)
	}
	for range 2 {
		if _, _, err := run(s, request(mcp.MethodToolsList, `{}`), `{"tools":[{"name":"sum"}]}`); err != nil {
			t.Fatal(err)
		}
		if err := call(); err == nil || err.Error() != "Unknown tool: sum" {
			t.Errorf("got %v", err)
		}
	}
	want := `the tools override names tool "add" "sum", which is the name of another tool of the server; clients see neither`
	if diff := cmp.Diff([]string{want}, s.Observe(named("add", "sum"))); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(log.String(), "clients see neither"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	if faults := s.Observe(named("add")); len(faults) != 0 || call() != nil {
		t.Errorf("after the other tool is gone: %v, %v", faults, call())
	}
}

func TestSet_Observe(t *testing.T) {
	var log bytes.Buffer
	s := New(Config{
		Filter:    []string{"ech", "plus", "nothing-like-it"},
		Overrides: map[string]Override{"add": {Name: "plus"}, "sbu": {Description: "x"}},
	}, slog.New(slog.NewTextHandler(&log, nil)))
	want := []string{
		`the tools override names "sbu", but the server has no such tool; did you mean "sub"?`,
		`the tools filter names "ech", but the server has no such tool; did you mean "echo"?`,
		`the tools filter names "nothing-like-it", but the server has no such tool`,
	}
	for range 2 {
		if diff := cmp.Diff(want, s.Observe(named("add", "echo", "sub"))); diff != "" {
			t.Error(diff)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != len(want) {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}
