package mcp

import (
	"encoding/json"
	"testing"
)

func TestEncodeHeader(t *testing.T) {
	for text, want := range map[string]string{
		"add":                 "add",
		"a b":                 "a b",
		" a":                  "=?base64?IGE=?=",
		"a ":                  "=?base64?YSA=?=",
		"":                    "=?base64??=",
		"\u00e4":              "=?base64?w6Q=?=",
		"a\nb":                "=?base64?YQpi?=",
		"=?base64?YQ==?=":     "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
		"=?base64?YQ==":       "=?base64?YQ==",
		"file:///a%20b?c=d#e": "file:///a%20b?c=d#e",
	} {
		got := EncodeHeader(text)
		if got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
		if back, ok := DecodeHeader(got); !ok || back != text {
			t.Errorf("%q is read back as %q, %t", text, back, ok)
		}
	}
	for _, bad := range []string{"=?base64?YQ?=", "=?base64?Y!==?=", "=?base64?YR==?=", "=?base64?/w==?="} {
		if got, ok := DecodeHeader(bad); ok {
			t.Errorf("%q is read as %q", bad, got)
		}
	}
}

func TestLookupName(t *testing.T) {
	for _, row := range []struct {
		method, params, want string
		found                bool
	}{
		{"tools/call", `{"name":"add"}`, "add", true},
		{"prompts/get", `{"name":"p"}`, "p", true},
		{"resources/read", `{"uri":"a:b","name":"x"}`, "a:b", true},
		{"tasks/get", `{"taskId":"t"}`, "t", true},
		{"tools/list", `{"name":"add"}`, "", false},
		{"tools/call", `{}`, "", false},
		{"tools/call", ``, "", false},
	} {
		got, found, err := LookupName(row.method, json.RawMessage(row.params))
		if got != row.want || found != row.found || err != nil {
			t.Errorf("%s %s: got %q, %t, %v", row.method, row.params, got, found, err)
		}
	}
	if _, _, err := LookupName("tools/call", json.RawMessage(`{"name":1}`)); err == nil {
		t.Error("a name that is a number is taken")
	}
}
