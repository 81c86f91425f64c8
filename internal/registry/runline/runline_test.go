package runline

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry"
)

func TestFor(t *testing.T) {
	npm := func(more string) string {
		return `"packages": [{"registryType": "npm", "identifier": "a", "transport": {"type": "stdio"}` + more + `}]`
	}
	oci := func(more string) string {
		return `"packages": [{"registryType": "oci", "identifier": "ghcr.io/a/b:1", "transport": {"type": "stdio"}` + more + `}]`
	}
	hints := func(permissions string) string {
		return `, "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"permissions": ` + permissions + `}}}`
	}
	for name, c := range map[string]struct{ document, want, note string }{
		"nothing is needed":           {npm(""), `thv run io.example/x`, ""},
		"a default needs nobody":      {npm(`, "environmentVariables": [{"name": "A", "isRequired": true, "default": "1"}]`), `thv run io.example/x`, ""},
		"what is optional is left":    {npm(`, "environmentVariables": [{"name": "A"}]`), `thv run io.example/x`, ""},
		"a required variable":         {npm(`, "environmentVariables": [{"name": "A", "isRequired": true}]`), `thv run io.example/x -e 'A=<value>'`, ""},
		"with an example":             {npm(`, "environmentVariables": [{"name": "A", "isRequired": true, "placeholder": "it's"}]`), `thv run io.example/x -e 'A=<it'\''s>'`, ""},
		"with choices":                {npm(`, "environmentVariables": [{"name": "A", "isRequired": true, "choices": ["b", "c"]}]`), `thv run io.example/x -e 'A=<b|c>'`, ""},
		"a secret is asked for":       {npm(`, "environmentVariables": [{"name": "A", "isRequired": true, "isSecret": true}]`), `thv run io.example/x`, "thv asks for A without showing it"},
		"what is named like a secret": {npm(`, "environmentVariables": [{"name": "GITHUB_TOKEN", "isRequired": true}]`), `thv run io.example/x`, "thv asks for GITHUB_TOKEN"},
		"a value with a variable":     {npm(`, "environmentVariables": [{"name": "A", "value": "x-{b}", "variables": {"b": {"isRequired": true}}}]`), `thv run io.example/x -e 'A=x-<b>'`, ""},
		"a value that is fixed":       {npm(`, "environmentVariables": [{"name": "A", "value": "{}", "isRequired": true}]`), `thv run io.example/x`, ""},
		"a name that is none":         {npm(`, "environmentVariables": [{"name": "A;rm -rf /", "isRequired": true}]`), `thv run io.example/x`, "cannot be written here"},
		"an argument":                 {npm(`, "packageArguments": [{"type": "named", "name": "--a", "value": "1"}, {"type": "positional", "valueHint": "directory", "isRequired": true}]`), `thv run io.example/x -- --a 1 '<directory>'`, ""},
		"arguments that are complete": {npm(`, "packageArguments": [{"type": "positional", "value": "serve"}]`), `thv run io.example/x`, ""},
		"a flag that is required":     {npm(`, "packageArguments": [{"type": "named", "name": "--yes", "isRequired": true}, {"type": "named", "name": "--to=", "valueHint": "place", "isRequired": true}]`), `thv run io.example/x -- --yes '--to=<place>'`, ""},
		"folders":                     {oci("") + hints(`{"read": ["/data"], "write": ["/home/jo:/work"]}`), `thv run io.example/x -v '<folder>:/data:ro' -v '<folder>:/work'`, "a folder that you choose"},
		"another network":             {oci("") + hints(`{"network": {"mode": "host"}}`), `thv run io.example/x --network host`, "Remove the flag to prevent that"},
		"its own network":             {oci("") + hints(`{"network": {"mode": "bridge"}}`), `thv run io.example/x`, ""},
		"a privileged container":      {oci("") + hints(`{"privileged": true}`), `thv run io.example/x --permission-profile '<file>'`, "privileged"},
		"a mount by docker's flag":    {oci(`, "runtimeArguments": [{"type": "named", "name": "--mount", "value": "type=bind,src={src},dst=/work"}]`), `thv run io.example/x -v '<folder>:/work'`, "a folder"},
		"a variable by docker's flag": {oci(`, "runtimeArguments": [{"type": "named", "name": "-e", "value": "A={b}", "variables": {"b": {"isRequired": true}}}]`), `thv run io.example/x -e 'A=<b>'`, ""},
		"a remote":                    {`"remotes": [{"type": "sse", "url": "https://a.example"}]`, `thv run io.example/x`, ""},
		"a header":                    {`"remotes": [{"type": "sse", "url": "https://a.example", "headers": [{"name": "X-Region", "isRequired": true}]}]`, `thv run io.example/x -e 'X_REGION=<value>'`, ""},
		"a secret header":             {`"remotes": [{"type": "sse", "url": "https://a.example", "headers": [{"name": "Authorization", "value": "Bearer {key}", "variables": {"key": {"isRequired": true, "isSecret": true}}}]}]`, `thv run io.example/x`, "thv asks for AUTHORIZATION"},
		"an address with a part open": {`"remotes": [{"type": "sse", "url": "https://{tenant}.a.example/$(id)", "variables": {"tenant": {}}}]`, `thv run 'https://<tenant>.a.example/$(id)'`, "depends on tenant"},
		"what runs here comes first":  {`"remotes": [{"type": "sse", "url": "https://{t}.example", "variables": {"t": {}}}], ` + npm(""), `thv run io.example/x`, ""},
		"a form thv does not run":     {`"packages": [{"registryType": "nuget", "identifier": "a", "transport": {"type": "stdio"}}]`, "", "thv cannot run"},
		"nothing at all":              {`"title": "x"`, "", "neither a way to run it nor a URL"},
		"a line that would break out": {npm(`, "packageArguments": [{"type": "positional", "value": "a\nrm -rf ~"}, {"type": "positional", "valueHint": "b", "isRequired": true}]`), "", "not be safe to paste"},
		"a line with escapes":         {`"remotes": [{"type": "sse", "url": "https://{t}.example/\u001b[31m", "variables": {"t": {}}}]`, "", "not be safe to paste"},
		"a line with hidden text":     {`"remotes": [{"type": "sse", "url": "https://{t}.example/\u202e", "variables": {"t": {}}}]`, "", "not be safe to paste"},
	} {
		t.Run(name, func(t *testing.T) {
			entry, err := registry.ParseServer([]byte(`{"name": "io.example/x", "version": "1.0.0", ` + c.document + `}`))
			if err != nil {
				t.Fatal(err)
			}
			got := For(entry, "io.example/x")
			if diff := cmp.Diff(c.want, got.Line); diff != "" {
				t.Error(diff)
			}
			said := strings.Join(append(got.Notes, got.Reason), " ")
			if !strings.Contains(said, c.note) || c.note == "" && said != "" && strings.TrimSpace(said) != "" {
				t.Errorf("it says %q, want %q", said, c.note)
			}
		})
	}
}

func TestFor_QuotedVersion(t *testing.T) {
	entry, err := registry.ParseServer([]byte(`{"name": "io.example/x", "remotes": [{"type": "sse", "url": "https://a.example"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := For(entry, "io.example/x@1$(id)").Line, `thv run 'io.example/x@1$(id)'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzQuote lets a real shell read what is quoted.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"a", "", "it's", "$(id)", "`id`", `a\`, "~", "=ls", "!x", "#", "a b", "-n", "ü", "a;b", "*", "\x00", "\n", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		word, ok := quote(text)
		if !ok {
			return
		}
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+"x"+word).Output()
		if err != nil || string(out) != "x"+text {
			t.Errorf("%q became %s, which a shell reads as %q (%v)", text, word, out, err)
		}
	})
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", " a\tb\r\nc ": "a b c", "a\u202eb": "ab", "a\x00b\x1bc": "abc", "a\u200bb": "ab", "abcdefghijk": "abcdefghij…", "": "",
		"\xff\xfea": "a", "日本語": "日本語", "\ufeff": "", "\u3164\u115f\u2800": "", "e\u0301": "e\u0301",
		"z" + strings.Repeat("\u0301", 50) + "a": "z\u0301\u0301\u0301\u0301a",
	} {
		if got := Clean(in, 10); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
}
