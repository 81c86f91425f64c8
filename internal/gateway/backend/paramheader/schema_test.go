package paramheader

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParamHeadersOf(t *testing.T) {
	property := func(p string) string { return `{"type":"object","properties":{"a":` + p + `}}` }
	for _, tt := range []struct{ name, schema, want string }{
		{"none", property(`{"type":"string"}`), ""},
		{"one", property(`{"type":"string","x-mcp-header":"X"}`), "Mcp-Param-X a"},
		{"escaped", property(`{"type":"string","\u0078-mcp-header":"X"}`), "Mcp-Param-X a"},
		{"empty", property(`{"type":"string","x-mcp-header":""}`), "error"},
		{"a space", property(`{"type":"string","x-mcp-header":"X Y"}`), "error"},
		{"a line break", property(`{"type":"string","x-mcp-header":"X\r\nY"}`), "error"},
		{"not ASCII", property(`{"type":"string","x-mcp-header":"Ä"}`), "error"},
		{"no string", property(`{"type":"string","x-mcp-header":7}`), "error"},
		{"a number", property(`{"type":"number","x-mcp-header":"X"}`), "error"},
		{"an object", property(`{"type":"object","x-mcp-header":"X"}`), "error"},
		{"no type", property(`{"x-mcp-header":"X"}`), "error"},
		{"twice", `{"properties":{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}}`, "error"},
		{"in an item", property(`{"type":"array","items":{"type":"string","x-mcp-header":"X"}}`), "error"},
		{"in a choice", property(`{"anyOf":[{"type":"string","x-mcp-header":"X"}]}`), "error"},
		{"in an example", property(`{"type":"object","examples":[{"x-mcp-header":"X"}]}`), ""},
		{"a property of that name", `{"properties":{"x-mcp-header":{"type":"string"}}}`, ""},
		{"too deep", strings.Repeat(`{"x-mcp-header":1,"properties":{"a":`, 100) + `{}` + strings.Repeat(`}}`, 100), "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := ReadSchema(json.RawMessage(tt.schema))
			var got []string
			for _, h := range found {
				got = append(got, h.name+" "+strings.Join(h.path, "."))
			}
			if err != nil {
				got = []string{"error"}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ",")); diff != "" {
				t.Error(diff, err)
			}
		})
	}
}

func TestMirroredValues(t *testing.T) {
	definitions := []definition{{[]string{"a"}, "Mcp-Param-A"}}
	for value, want := range map[string]string{
		`"x y"`: "x y", `""`: "=?base64??=", `" x"`: "=?base64?IHg=?=", `true`: "true", `-1`: "-1", `1.0`: "1",
		`1.5`: "none", `9007199254740991`: "9007199254740991", `9007199254740992`: "none", `null`: "none", `{}`: "none", `[]`: "none",
		`"` + strings.Repeat("x", maxParamBytes+1) + `"`: "error",
	} {
		h, err := Mirror(definitions, json.RawMessage(`{"arguments":{"a":`+value+`}}`))
		got := strings.Join(slices.Collect(func(yield func(string) bool) {
			for v := range maps.Values(h) {
				yield(v[0])
			}
		}), ",")
		if h == nil {
			got = "none"
		}
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%.40s: %q, want %q", value, got, want)
		}
	}
}
