package entries

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The places of some clients.
var (
	object  = Place{Format: JSON, Path: []string{"mcpServers"}}
	deep    = Place{Format: JSON, Path: []string{"mcp", "servers"}}
	mapping = Place{Format: YAML, Path: []string{"extensions"}}
	listed  = Place{Format: YAML, Path: []string{"mcpServers"}, Listed: true}
	tables  = Place{Format: TOML, Path: []string{"mcp_servers"}}
	arrays  = Place{Format: TOML, Path: []string{"mcp_servers"}, Listed: true}
)

var demo = []Field{{"url", "http://127.0.0.1:1/mcp"}, {"type", "http"}}

func TestPut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		place         Place
		before, after string
	}{
		"no file":             {object, "", "{\n  \"mcpServers\": {\n    \"demo\": {\n      \"url\": \"http://127.0.0.1:1/mcp\",\n      \"type\": \"http\"\n    }\n  }\n}\n"},
		"empty object":        {object, "{}", "{\n  \"mcpServers\": {\n    \"demo\": {\n      \"url\": \"http://127.0.0.1:1/mcp\",\n      \"type\": \"http\"\n    }\n  }\n}"},
		"two levels":          {deep, "{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"mcp\": {\n\t\t\"servers\": {\n\t\t\t\"demo\": {\n\t\t\t\t\"url\": \"http://127.0.0.1:1/mcp\",\n\t\t\t\t\"type\": \"http\"\n\t\t\t}\n\t\t}\n\t}\n}\n"},
		"comments":            {object, "// top\n{\n  \"mcpServers\": { // ours\n    \"a\": {} // a\n  }, /* end */\n}\n", "// top\n{\n  \"mcpServers\": { // ours\n    \"a\": {}, // a\n    \"demo\": {\n      \"url\": \"http://127.0.0.1:1/mcp\",\n      \"type\": \"http\"\n    }\n  }, /* end */\n}\n"},
		"trailing comma":      {object, "{\n    \"mcpServers\": {\n        \"a\": {},\n    }\n}", "{\n    \"mcpServers\": {\n        \"a\": {},\n        \"demo\": {\n            \"url\": \"http://127.0.0.1:1/mcp\",\n            \"type\": \"http\"\n        },\n    }\n}"},
		"one line":            {object, `{"mcpServers":{"a":{}},"z":1}`, `{"mcpServers":{"a":{}, "demo": {"url": "http://127.0.0.1:1/mcp", "type": "http"}},"z":1}`},
		"CRLF and BOM":        {object, "\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", "\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"demo\": {\r\n      \"url\": \"http://127.0.0.1:1/mcp\",\r\n      \"type\": \"http\"\r\n    }\r\n  }\r\n}\r\n"},
		"another address":     {object, `{"mcpServers": {"demo": {"disabled": true, "url": "http://127.0.0.1:9/mcp", "type": "http"}}}`, `{"mcpServers": {"demo": {"disabled": true, "url": "http://127.0.0.1:1/mcp", "type": "http"}}}`},
		"a member is missing": {object, `{"mcpServers": {"demo": {"url": "http://127.0.0.1:1/mcp"}}}`, `{"mcpServers": {"demo": {"url": "http://127.0.0.1:1/mcp", "type": "http"}}}`},
		"nothing to do":       {object, `{"mcpServers": {"demo": {"type":"http","x":1,"url":"http:\u002f/127.0.0.1:1/mcp"}}}`, `{"mcpServers": {"demo": {"type":"http","x":1,"url":"http:\u002f/127.0.0.1:1/mcp"}}}`},

		"YAML: no file":         {mapping, "", "extensions:\n  demo:\n    url: http://127.0.0.1:1/mcp\n    type: http\n"},
		"YAML: comments":        {mapping, "# top\nA: 1\nextensions: # mine\n    # the first\n    a:\n        x: 1 # one\n\n# end\n", "# top\nA: 1\nextensions: # mine\n    demo:\n      url: http://127.0.0.1:1/mcp\n      type: http\n    # the first\n    a:\n        x: 1 # one\n\n# end\n"},
		"YAML: no container":    {mapping, "A: 1\r\n# end", "A: 1\r\n# end\r\nextensions:\r\n  demo:\r\n    url: http://127.0.0.1:1/mcp\r\n    type: http\r\n"},
		"YAML: null":            {mapping, "extensions:\nB: 1\n", "extensions:\n  demo:\n    url: http://127.0.0.1:1/mcp\n    type: http\nB: 1\n"},
		"YAML: empty":           {mapping, "extensions: {} # none\nB: 1\n", "extensions: # none\n  demo:\n    url: http://127.0.0.1:1/mcp\n    type: http\nB: 1\n"},
		"YAML: another address": {mapping, "extensions:\n  demo: # ours\n    url: \"http://127.0.0.1:9/mcp\" # here\n    type: http\n    x: [1]\n", "extensions:\n  demo: # ours\n    url: http://127.0.0.1:1/mcp # here\n    type: http\n    x: [1]\n"},
		"YAML: list":            {listed, "mcpServers:\n- name: a\n  url: x\n", "mcpServers:\n- name: demo\n  url: http://127.0.0.1:1/mcp\n  type: http\n- name: a\n  url: x\n"},
		"YAML: indented list":   {listed, "mcpServers:\n    - name: a\n      url: x\n", "mcpServers:\n    - name: demo\n      url: http://127.0.0.1:1/mcp\n      type: http\n    - name: a\n      url: x\n"},

		"TOML: no file":         {tables, "", "[mcp_servers.demo]\nurl = \"http://127.0.0.1:1/mcp\"\ntype = \"http\"\n"},
		"TOML: append":          {tables, "# top\na = 1 # one\n\n[b]\nc = [\n 1, # x\n]", "# top\na = 1 # one\n\n[b]\nc = [\n 1, # x\n]\n\n[mcp_servers.demo]\nurl = \"http://127.0.0.1:1/mcp\"\ntype = \"http\"\n"},
		"TOML: another address": {tables, "[mcp_servers.demo]\nurl = 'http://127.0.0.1:9/mcp' # here\ntype = \"http\"\nx = 1\n", "[mcp_servers.demo]\nurl = \"http://127.0.0.1:1/mcp\" # here\ntype = \"http\"\nx = 1\n"},
		"TOML: list":            {arrays, "[[mcp_servers]]\nname = \"a\"\n", "[[mcp_servers]]\nname = \"a\"\n\n[[mcp_servers]]\nname = \"demo\"\nurl = \"http://127.0.0.1:1/mcp\"\ntype = \"http\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Put([]byte(c.before), c.place, "demo", demo, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		place         Place
		before, after string
	}{
		"not there":       {object, `{"a": 1}`, `{"a": 1}`},
		"the first":       {object, "{\n  \"mcpServers\": {\n    \"demo\": {\"url\": \"x\"},\n    \"b\": {}\n  }\n}", "{\n  \"mcpServers\": {\n    \"b\": {}\n  }\n}"},
		"in the middle":   {object, "{\"mcpServers\": {\n \"a\": {}, // a\n \"demo\": {}, // demo\n \"b\": {}\n}}", "{\"mcpServers\": {\n \"a\": {}, // a\n // demo\n \"b\": {}\n}}"},
		"the last":        {object, "{\"mcpServers\": {\n \"a\": {} /* x */, // a\n \"demo\": {}\n}}", "{\"mcpServers\": {\n \"a\": {} /* x */ // a\n}}"},
		"the only one":    {object, "{\"mcpServers\": {\n \"demo\": {},\n}}", "{\"mcpServers\": {}}"},
		"within a line":   {object, `{"mcpServers": {"a": 1, "demo": {}, "b": {}}}`, `{"mcpServers": {"a": 1, "b": {}}}`},
		"last in a line":  {object, `{"mcpServers": {"a": 1, "demo": {}}}`, `{"mcpServers": {"a": 1}}`},
		"first in a line": {object, `{"mcpServers": {"demo": {}, "b": {}}}`, `{"mcpServers": {"b": {}}}`},
		"a comment stays": {object, "{\"mcpServers\": { // mine\n \"demo\": {}\n}}", "{\"mcpServers\": { // mine\n}}"},

		"YAML: a member":      {mapping, "extensions:\n  # one\n  a: {x: 1}\n  demo:\n    url: x\n\n    y: |\n      text\n    # deep\n  # two\n  b: 1\n", "extensions:\n  # one\n  a: {x: 1}\n    # deep\n  # two\n  b: 1\n"},
		"YAML: the only one":  {mapping, "extensions: # mine\n  demo:\n    url: x\nB: 1\n", "extensions: {} # mine\nB: 1\n"},
		"YAML: of a list":     {listed, "mcpServers:\n- name: demo\n  url: x\n- name: b\n", "mcpServers:\n- name: b\n"},
		"YAML: only in list":  {listed, "mcpServers:\n- url: x\n  name: demo\n# end\n", "mcpServers: []\n# end\n"},
		"TOML: a table":       {tables, "a = 1\n\n[mcp_servers.demo]\nurl = \"x\"\n\n[mcp_servers.demo.env]\nA = \"1\"\n\n# of b\n[b]\nc = 1\n", "a = 1\n\n# of b\n[b]\nc = 1\n"},
		"TOML: of a list":     {arrays, "[[mcp_servers]]\nname = \"a\"\n\n[[mcp_servers]]\nname = \"demo\"\n[mcp_servers.env]\nA = 1\n\n[[mcp_servers]]\nname = \"b\"\n[mcp_servers.env]\nA = 1\n", "[[mcp_servers]]\nname = \"a\"\n\n[[mcp_servers]]\nname = \"b\"\n[mcp_servers.env]\nA = 1\n"},
		"TOML: after a blank": {tables, "\n[mcp_servers.demo]\nurl = \"x\"\n", ""},
		"TOML: the first one": {tables, "[mcp_servers.demo]\nurl = \"x\"\n[b]\n", "[b]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Remove([]byte(c.before), c.place, "demo")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		place   Place
		content string
		err     error
	}{
		"cut short":               {object, `{"mcpServers": {`, ErrInvalid},
		"not UTF-8":               {object, "{\"a\": \"\xff\"}", ErrInvalid},
		"a list":                  {object, `[]`, ErrInvalid},
		"no object":               {object, `{"mcpServers": []}`, ErrInvalid},
		"twice":                   {object, `{"mcpServers": {}, "mcpServers": {}}`, ErrInvalid},
		"entry twice":             {object, `{"mcpServers": {"demo": {}, "demo": {}}}`, ErrInvalid},
		"entry is no object":      {object, `{"mcpServers": {"demo": "x"}}`, ErrInvalid},
		"deep":                    {object, strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), ErrInvalid},
		"UTF-16":                  {object, "\xff\xfe{\x00}\x00", ErrInvalid},
		"YAML: a key twice":       {mapping, strings.Repeat("a: 1\n", 20_000), ErrInvalid},
		"YAML: two documents":     {mapping, "a: 1\n---\nb: 1\n", ErrInvalid},
		"YAML: a list":            {mapping, "- a\n", ErrInvalid},
		"YAML: tabs":              {mapping, "a:\n\t- b\n", ErrInvalid},
		"YAML: the other kind":    {mapping, "extensions: [1]\n", ErrInvalid},
		"YAML: in braces":         {mapping, "extensions: {a: {}}\n", ErrForm},
		"YAML: an anchor":         {mapping, "extensions: &x\n  a: 1\nb: *x\n", ErrForm},
		"YAML: twice in the list": {listed, "mcpServers: [{name: demo}, {name: demo}]\n", ErrInvalid},
		"TOML: no value":          {tables, "a =\n", ErrInvalid},
		"TOML: in braces":         {tables, "mcp_servers = {a = {}}\n", ErrForm},
		"TOML: no table":          {tables, "mcp_servers = 1\n", ErrInvalid},
		"TOML: dotted":            {tables, "mcp_servers.demo.url = \"x\"\n", ErrForm},
		"changed by hand":         {tables, "[mcp_servers.demo]\nurl = \"x\"\nmine = 1\n", ErrForm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Put([]byte(c.content), c.place, "demo", demo, nil); !errors.Is(err, c.err) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestFieldsOfThvAreReplaced(t *testing.T) {
	t.Parallel()
	command := []Field{{"command", "thv"}, {"args", []string{"connect", "demo"}}}
	for name, c := range map[string]struct {
		place         Place
		before, after string
	}{
		"JSON": {object, `{"mcpServers": {"demo": {"x": 1, "url": "http://h/", "type": "http"}}}`, `{"mcpServers": {"demo": {"x": 1, "command": "thv", "args": ["connect","demo"]}}}`},
		"YAML": {mapping, "extensions:\n  demo:\n    url: x\n    type: http\n  b: 1\n", "extensions:\n  demo:\n    command: thv\n    args: [\"connect\",\"demo\"]\n  b: 1\n"},
		"TOML": {tables, "[mcp_servers.demo]\nurl = \"x\"\n[b]\n", "[b]\n\n[mcp_servers.demo]\ncommand = \"thv\"\nargs = [\"connect\",\"demo\"]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Put([]byte(c.before), c.place, "demo", command, []string{"url", "type"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
