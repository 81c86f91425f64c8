package toolset

import (
	"strings"
	"testing"
)

func TestConfig_Validate(t *testing.T) {
	for _, row := range []struct {
		name string
		cfg  Config
		want []string // lines of the error
	}{
		{"nothing", Config{}, nil},
		{"a filter", Config{Filter: []string{"add", "sub tract"}}, nil},
		{"an override of each kind", Config{Overrides: map[string]Override{"a": {Name: "b"}, "c": {Description: "d"}, "e": {Name: "f", Description: "g"}}}, nil},
		{"two names exchanged", Config{Overrides: map[string]Override{"a": {Name: "b"}, "b": {Name: "a"}}, Filter: []string{"a"}}, nil},
		{"its own name", Config{Overrides: map[string]Override{"a": {Name: "a"}}, Filter: []string{"a"}}, nil},
		{"a visible name in the filter", Config{Overrides: map[string]Override{"a": {Name: "b"}}, Filter: []string{"b"}}, nil},
		{"an empty override", Config{Overrides: map[string]Override{"a": {}}}, []string{`tools override: tool "a" has neither a name nor a description`}},
		{"one name for two tools", Config{Overrides: map[string]Override{"a": {Name: "x"}, "b": {Name: "x"}}}, []string{`tools override: tools "a" and "b" are both named "x"`}},
		{"the name of a tool that keeps it", Config{Overrides: map[string]Override{"a": {Name: "b"}, "b": {Description: "x"}}}, []string{`tools override: tools "a" and "b" are both named "b"`}},
		{"control characters and spaces", Config{Overrides: map[string]Override{"a\n": {Name: "b"}, "c": {Name: "d\x1b[2J"}, "e": {Name: " f"}}},
			[]string{`tools override: the name "a\n" of a tool contains control characters`, `tools override: the new name "d\x1b[2J" of tool "c" contains control characters`, `tools override: the new name " f" of tool "e" begins or ends with a space`}},
		{"an empty name of a tool", Config{Overrides: map[string]Override{"": {Name: "b"}}}, []string{`tools override: the name "" of a tool is empty`}},
		{"not UTF-8", Config{Overrides: map[string]Override{"a": {Name: "\xff"}, "b": {Description: "\xff"}}},
			[]string{`tools override: the new name "\xff" of tool "a" is not UTF-8`, `tools override: the description of tool "b" is not UTF-8`}},
		{"an empty name in the filter", Config{Filter: []string{"a", ""}}, []string{`tools filter: the name "" is empty`}},
		{"the server's name in the filter", Config{Overrides: map[string]Override{"a": {Name: "b"}}, Filter: []string{"a"}},
			[]string{`tools filter: the override names tool "a" "b"; the filter must use that name`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := ""
			if err := row.cfg.Validate(); err != nil {
				got = err.Error()
			}
			if want := strings.Join(row.want, "\n"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
