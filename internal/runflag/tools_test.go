package runflag

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/toolset"
)

func TestLoadToolsOverride(t *testing.T) {
	for _, row := range []struct {
		name, content string
		want          map[string]toolset.Override
		fault         string // after the file's name
	}{
		{"both members", `{"toolsOverride": {"add": {"name": "plus", "description": "adds"}, "Add": {"name": "Plus"}}}`,
			map[string]toolset.Override{"add": {Name: "plus", Description: "adds"}, "Add": {Name: "Plus"}}, ""},
		{"no override", `{"toolsOverride": {}}`, map[string]toolset.Override{}, ""},
		{"no key", `{}`, nil, `it has no key "toolsOverride"`},
		{"null", `{"toolsOverride": null}`, nil, `it has no key "toolsOverride"`},
		{"an unknown key", "{\n\"toolOverride\": {}}", nil, `line 2: unknown key "toolOverride"; did you mean "toolsOverride"?`},
		{"an unknown member", "{\"toolsOverride\": {\n\"add\": {\n\"nam\": \"x\"}}}", nil, `line 3: unknown key "nam"; did you mean "name"?`},
		{"a key in another case", `{"toolsoverride": {"add": {"name": "x"}}}`, nil, `line 1: unknown key "toolsoverride"; did you mean "toolsOverride"?`},
		{"a member in another case", "{\"toolsOverride\": {\"add\": {\"name\": \"x\",\n\"Name\": \"y\"}}}", nil, `line 2: unknown key "Name"; did you mean "name"?`},
		{"a tool twice", "{\"toolsOverride\": {\"add\": {\"name\": \"x\"},\n\"add\": {\"name\": \"y\"}}}", nil, `line 2: the key "add" is there twice`},
		{"a member twice", `{"toolsOverride": {"add": {"name": "x", "name": "y"}}}`, nil, `line 1: the key "name" is there twice`},
		{"a list", `{"toolsOverride": []}`, nil, "line 1: toolsOverride must be of type map[string]toolset.Override, not array"},
		{"a number for a name", `{"toolsOverride": {"add": {"name": 1}}}`, nil, "line 1: toolsOverride.name must be of type string, not number"},
		{"not JSON", "toolsOverride:\n  add:\n", nil, "line 1: it is not valid JSON: invalid character 'o' in literal true (expecting 'r')"},
		{"nothing", "", nil, "it is not valid JSON: it ends too early"},
		{"two documents", `{"toolsOverride": {}} {}`, nil, "line 1: there is something after the document"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "override.json")
			if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadToolsOverride(path)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
			fault := ""
			if err != nil {
				fault = strings.TrimPrefix(err.Error(), "--tools-override "+path+": ")
			}
			if fault != row.fault {
				t.Errorf("got %q, want %q", fault, row.fault)
			}
		})
	}
	if _, err := LoadToolsOverride(filepath.Join(t.TempDir(), "none.json")); err == nil || !strings.HasPrefix(err.Error(), "--tools-override: open ") {
		t.Errorf("got %v", err)
	}
}

// Any file is an error, or what was read of it is valid or refused, and never panics.
func FuzzToolsOverride(f *testing.F) {
	f.Add([]byte(`{"toolsOverride": {"add": {"name": "plus", "description": "adds"}}}`))
	f.Add([]byte(`{"toolsOverride": {"a": {"name": "b"}, "b": {"name": "a"}}}`))
	f.Add([]byte(`{"toolsoverride": {"a": {"Name": "b"}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		overrides, err := parseToolsOverride(content)
		if err != nil {
			return
		}
		cfg := toolset.Config{Overrides: overrides}
		if cfg.Validate() != nil {
			return
		}
		visible := map[string]bool{}
		for actual, o := range overrides {
			name := actual
			if o.Name != "" {
				name = o.Name
			}
			if visible[name] || name == "" || strings.ContainsAny(name, "\x00\n\x1b") {
				t.Fatalf("%q: the visible name %q", content, name)
			}
			visible[name] = true
		}
	})
}
