package toolset

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// tool is one tool from its JSON.
func toolOf(t *testing.T, raw string) Tool {
	t.Helper()
	name, _, err := mcp.LookupString(json.RawMessage(raw), "name")
	if err != nil {
		t.Fatal(err)
	}
	return Tool{Name: name, JSON: json.RawMessage(raw)}
}

func pinsOf(t *testing.T, raws ...string) Pins {
	t.Helper()
	var tools []Tool
	for _, raw := range raws {
		tools = append(tools, toolOf(t, raw))
	}
	pins, err := PinsOf(tools)
	if err != nil {
		t.Fatal(err)
	}
	return pins
}

func TestPins_Compare(t *testing.T) {
	const add = `{"name":"add","description":"adds","inputSchema":{"type":"object","properties":{"a":{"type":"number"}}}}`
	for _, row := range []struct {
		name        string
		before, now []string
		want        []Change
	}{
		{"nothing", []string{add}, []string{add}, nil},
		{"blanks, order and spelling", []string{add}, []string{`{"inputSchema": {"properties":{"a":{"type":"number"}}, "type":"object"}, "name":"add", "description":"a\u0064ds"}`}, nil},
		{"another title", []string{add}, []string{strings.Replace(add, `"name"`, `"title":"Add","name"`, 1)}, nil},
		{"a description", []string{add}, []string{strings.Replace(add, "adds", "sends", 1)},
			[]Change{{Tool: "add", Kind: "changed", Description: true, Before: "adds", After: "sends"}}},
		{"a description is gone", []string{add}, []string{strings.Replace(add, `"description":"adds",`, "", 1)},
			[]Change{{Tool: "add", Kind: "changed", Description: true, Before: "adds"}}},
		{"a schema", []string{add}, []string{strings.Replace(add, "number", "string", 1)}, []Change{{Tool: "add", Kind: "changed", Schema: true}}},
		{"a description behind what is kept", []string{`{"name":"a","description":"` + strings.Repeat("x", 3000) + `"}`}, []string{`{"name":"a","description":"` + strings.Repeat("x", 3001) + `"}`},
			[]Change{{Tool: "a", Kind: "changed", Description: true, Before: strings.Repeat("x", 2000) + "…", After: strings.Repeat("x", 2000) + "…"}}},
		{"a new tool and a removed one", []string{add}, []string{`{"name":"sub","description":"subtracts"}`},
			[]Change{{Tool: "add", Kind: "removed", Before: "adds"}, {Tool: "sub", Kind: "new", After: "subtracts"}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, pinsOf(t, row.before...).Compare(pinsOf(t, row.now...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChange_String(t *testing.T) {
	for want, c := range map[string]Change{
		`tool "a" is new`:                                               {Tool: "a", Kind: "new"},
		`the description of tool "a" has changed`:                       {Tool: "a", Kind: "changed", Description: true},
		`the input schema of tool "a" has changed`:                      {Tool: "a", Kind: "changed", Schema: true},
		`the description and the input schema of tool "a" have changed`: {Tool: "a", Kind: "changed", Schema: true, Description: true},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestStage_Pins(t *testing.T) {
	var log bytes.Buffer
	s := New(Config{Pin: true, Overrides: map[string]Override{"add": {Name: "plus", Description: "mine"}}}, slog.New(slog.NewTextHandler(&log, nil)))
	const add, sub, changed = `{"name":"add","description":"adds"}`, `{"name":"sub"}`, `{"name":"add","description":"sends"}`
	list := func(tools ...string) string {
		t.Helper()
		answer, _, err := run(s, request(mcp.MethodToolsList, `{}`), `{"tools":[`+strings.Join(tools, ",")+`]}`)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer.Result)
	}
	call := func(name string) bool {
		_, sent, _ := run(s, request(mcp.MethodToolsCall, `{"name":"`+name+`"}`), `{}`)
		return sent != nil
	}
	check := func(step, got, want string, plus, sub bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %s, want %s", step, got, want)
		}
		if call("plus") != plus || call("sub") != sub {
			t.Errorf("%s: plus can be called: %t, sub: %t", step, call("plus"), call("sub"))
		}
	}
	check("without pins", list(add, sub), `{"tools":[]}`, false, false)
	s.Pin(pinsOf(t, add))
	check("one pin", list(add, sub), `{"tools":[{"name":"plus","description":"mine"}]}`, true, false)
	check("again", list(add, sub), `{"tools":[{"name":"plus","description":"mine"}]}`, true, false)
	check("changed", list(changed), `{"tools":[]}`, false, false)
	check("changed back", list(add), `{"tools":[]}`, false, false)
	s.Pin(pinsOf(t, changed, sub))
	check("accepted", list(changed, sub), `{"tools":[{"name":"plus","description":"mine"},{"name":"sub"}]}`, true, true)
	if n := strings.Count(log.String(), `differs from its pin`); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	s.Observe([]Tool{toolOf(t, add), toolOf(t, sub)})
	if call("plus") || !call("sub") {
		t.Error("a change in the owner's list does not count")
	}
}
