package serverjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry"
)

const whole = `{
  "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
  "name": "io.github.example/weather", "description": "Says what the weather is", "version": "1.2.3", "title": "Weather",
  "repository": {"url": "https://github.com/example/weather", "source": "github", "id": "1", "subfolder": "a/b"},
  "websiteUrl": "https://example.com/weather",
  "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}],
  "packages": [
    {"registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org", "identifier": "@example/weather", "version": "1.2.3", "runtimeHint": "npx",
     "transport": {"type": "stdio"},
     "runtimeArguments": [{"type": "named", "name": "-e", "value": "KEY={key}", "variables": {"key": {"description": "The key", "isRequired": true, "isSecret": true}}}],
     "packageArguments": [{"type": "positional", "valueHint": "city", "isRepeated": true, "default": "Oslo", "choices": ["Oslo", "Rome"]}],
     "environmentVariables": [{"name": "API_TOKEN", "isRequired": true, "isSecret": true, "placeholder": "tk_..."}]},
    {"registryType": "oci", "identifier": "ghcr.io/example/weather:1.2.3", "transport": {"type": "streamable-http", "url": "http://localhost:{port}/mcp"}},
    {"registryType": "mcpb", "identifier": "https://example.com/w.mcpb", "version": "1.2.3", "fileSha256": "0000000000000000000000000000000000000000000000000000000000000000", "transport": {"type": "stdio"}}
  ],
  "remotes": [{"type": "streamable-http", "url": "https://{region}.example.com/mcp", "variables": {"region": {"choices": ["eu", "us"], "default": "eu"}},
    "headers": [{"name": "X-Api-Key", "isSecret": true, "isRequired": true}]}],
  "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {
    "dev.toolhaven": {"tags": ["sky", "air"]}, "io.github.stacklok": {"ghcr.io/example/weather:1.2.3": {"tags": ["air", "rain"]}}, "x": [1]}}
}`

func TestParse_KeepsDocument(t *testing.T) {
	for name, read := range map[string]func([]byte) (Document, error){"Parse": Parse, "Validate": Validate} {
		doc, err := read([]byte(whole))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(whole)); err != nil {
			t.Fatal(err)
		}
		want := Document{
			Name: "io.github.example/weather", Version: "1.2.3", Title: "Weather", Description: "Says what the weather is",
			Tags: []string{"sky", "air", "rain"}, Raw: compact.Bytes(),
		}
		if diff := cmp.Diff(want, doc); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff("io.github.example/weather\nweather\nsays what the weather is\nsky\nair\nrain", doc.SearchText()); diff != "" {
			t.Error(diff)
		}
	}
}

// with is the whole document with one text replaced.
func with(old, replacement string) string {
	if !strings.Contains(whole, old) {
		panic(old)
	}
	return strings.Replace(whole, old, replacement, 1)
}

func TestParse_UnstorableText(t *testing.T) {
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	tests := map[string]string{
		"nothing":                     "",
		"no JSON":                     "{",
		"a list":                      "[]",
		"null":                        "null",
		"two values":                  "{} {}",
		"a member twice":              `{"name":"a/b","version":"1","description":"d","name":"c/d"}`,
		"a member twice, escaped":     `{"name":"a/b","version":"1","description":"d","n\u0061me":"c/d"}`,
		"a member twice, deep inside": `{"name":"a/b","version":"1","description":"d","_meta":{"x":[{"a":1,"a":2}]}}`,
		"NUL in a text":               `{"name":"a/b","version":"1","description":"d\u0000"}`,
		"NUL in a name of a member":   `{"name":"a/b","version":"1","description":"d","x\u0000":1}`,
		"no UTF-8":                    "{\"name\":\"a/b\",\"version\":\"1\",\"description\":\"\xff\"}",
		"nested without end":          `{"name":"a/b","version":"1","description":"d","x":` + deep + `}`,
		"too large":                   `{"name":"a/b","version":"1","description":"` + strings.Repeat("x", MaxSize) + `"}`,
		"no name":                     `{"version":"1","description":"d"}`,
		"a name in another case":      `{"Name":"a/b","version":"1","description":"d"}`,
		"a name of another type":      `{"name":["a/b"],"version":"1","description":"d"}`,
		"a name without namespace":    `{"name":"b","version":"1","description":"d"}`,
		"a name of three parts":       `{"name":"a/b/c","version":"1","description":"d"}`,
		"a name with dots":            `{"name":"../b","version":"1","description":"d"}`,
		"no version":                  `{"name":"a/b","description":"d"}`,
		"the version latest":          `{"name":"a/b","version":"latest","description":"d"}`,
		"a version with a slash":      `{"name":"a/b","version":"1/2","description":"d"}`,
		"a version with an at sign":   `{"name":"a/b","version":"1@2","description":"d"}`,
		"an endless version":          `{"name":"a/b","version":"` + strings.Repeat("1", 256) + `","description":"d"}`,
	}
	for _, r := range []string{"^1.0.0", "~1.2", ">=1", "<2", "*", "1.x", "1.*", "1 - 2", "1 || 2"} {
		tests["the range "+r] = `{"name":"a/b","version":"` + r + `","description":"d"}`
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(text)); err == nil {
				t.Error("Parse accepts it")
			}
			_, err := Validate([]byte(text))
			var faults *Faults
			if !errors.As(err, &faults) {
				t.Errorf("Validate: %v", err)
			}
		})
	}
	for _, version := range []string{"1.0.0", "1.0.0-rc.1+build.5", "2026-11-21", "v1", "beta", "1.0.0-x"} {
		if _, err := Parse([]byte(`{"name":"a/b","version":"` + version + `","description":"d"}`)); err != nil {
			t.Errorf("the version %s: %v", version, err)
		}
	}
}

func TestValidate_Publication(t *testing.T) {
	tests := []struct{ name, text, pointer string }{
		{"another schema", with("2025-12-11", "2025-07-09"), "/$schema"},
		{"an unknown member", with(`"title"`, `"titel"`), "/titel"},
		{"no description", with(`"description": "Says what the weather is",`, ""), "/description"},
		{"a long description", with("Says what", strings.Repeat("x", 101)), "/description"},
		{"an empty title", with(`"title": "Weather"`, `"title": " "`), "/title"},
		{"a control character", with("Says what", `Says\u001b[31m what`), "/description"},
		{"a web site that is a script", with("https://example.com/weather", "javascript:alert(1)"), "/websiteUrl"},
		{"a repository without its URL", with(`"url": "https://github.com/example/weather", `, ""), "/repository/url"},
		{"an icon over plain HTTP", with("https://example.com/i.png", "http://example.com/i.png"), "/icons/0/src"},
		{"an icon of another kind", with("image/png", "text/html"), "/icons/0/mimeType"},
		{"a size", with("48x48", "48"), "/icons/0/sizes/0"},
		{"a theme", with(`"dark"`, `"blue"`), "/icons/0/theme"},
		{"a kind of package nobody knows", with(`"npm"`, `"deb"`), "/packages/0/registryType"},
		{"a package without a version", with(`"identifier": "@example/weather", "version": "1.2.3",`, `"identifier": "@example/weather",`), "/packages/0/version"},
		{"a package of a range", with(`"@example/weather", "version": "1.2.3"`, `"@example/weather", "version": "^1"`), "/packages/0/version"},
		{"an option for a package", with("@example/weather", "--registry=evil"), "/packages/0/identifier"},
		{"an image with a version", with(`"registryType": "oci",`, `"registryType": "oci", "version": "1",`), "/packages/1/version"},
		{"a bundle without its digest", with(`"fileSha256": "0000000000000000000000000000000000000000000000000000000000000000", `, ""), "/packages/2/fileSha256"},
		{"a bundle over plain HTTP", with("https://example.com/w.mcpb", "http://example.com/w.mcpb"), "/packages/2/identifier"},
		{"a transport nobody knows", with(`{"type": "stdio"}`, `{"type": "telnet"}`), "/packages/0/transport/type"},
		{"stdio with a URL", with(`{"type": "stdio"}`, `{"type": "stdio", "url": "http://x"}`), "/packages/0/transport/url"},
		{"HTTP without a URL", with(`, "url": "http://localhost:{port}/mcp"`, ""), "/packages/1/transport/url"},
		{"a remote over stdio", with(`"remotes": [{"type": "streamable-http"`, `"remotes": [{"type": "stdio"`), "/remotes/0/type"},
		{"a remote with a password", with("https://{region}.", "https://u:p@{region}."), "/remotes/0/url"},
		{"a remote over another scheme", with("https://{region}", "ftp://{region}"), "/remotes/0/url"},
		{"a variable nobody declares", with(`"region": {`, `"zone": {`), "/remotes/0/url"},
		{"a published secret", with(`"isSecret": true, "placeholder": "tk_..."`, `"isSecret": true, "value": "tk_live_1"`), "/packages/0/environmentVariables/0/value"},
		{"a secret's default", with(`"isSecret": true, "placeholder": "tk_..."`, `"isSecret": true, "default": "tk_live_1"`), "/packages/0/environmentVariables/0/default"},
		{"a name of a variable", with("API_TOKEN", "API TOKEN"), "/packages/0/environmentVariables/0/name"},
		{"a name of a header", with("X-Api-Key", "X-Api-Key: x"), "/remotes/0/headers/0/name"},
		{"a named argument without a name", with(`"name": "-e", `, ""), "/packages/0/runtimeArguments/0/name"},
		{"a positional argument without anything", with(`"valueHint": "city", `, ""), "/packages/0/packageArguments/0"},
		{"a default that is no choice", with(`"default": "Oslo"`, `"default": "Bonn"`), "/packages/0/packageArguments/0/default"},
		{"a boolean that is a text", with(`"isRepeated": true`, `"isRepeated": "yes"`), "/packages/0/packageArguments/0/isRepeated"},
		{"the registry's own _meta", with(`"_meta": {`, `"_meta": {"io.modelcontextprotocol.registry/official": {},`), "/_meta/io.modelcontextprotocol.registry~1official"},
		{"endless _meta", with(`"x": [1]`, `"x": "`+strings.Repeat("x", maxPublisherMeta)+`"`), "/_meta/io.modelcontextprotocol.registry~1publisher-provided"},
		{"packages that are no list", with(`"remotes": [`, `"remotes": {}, "x": [`), "/remotes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Validate([]byte(test.text))
			var faults *Faults
			if !errors.As(err, &faults) {
				t.Fatalf("%v", err)
			}
			if !slices.ContainsFunc(faults.List, func(f Fault) bool { return f.Pointer == test.pointer }) {
				t.Errorf("no fault at %s:\n%v", test.pointer, err)
			}
			if strings.Contains(err.Error(), "tk_live_1") {
				t.Error("the error repeats a secret")
			}
		})
	}
	_, err := Validate([]byte(`{"titel":"x","name":1,"packages":3}`))
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.List) < 5 {
		t.Errorf("not all faults at once: %v", err)
	}
}

func TestReadFile_Formats(t *testing.T) {
	one := `{"name":"a/b","version":"1.0.0","description":"d"}`
	two := `{"name":"a/b","version":"2.0.0","description":"d"}`
	tests := []struct {
		name, content string
		want          []string
		wrong         string
	}{
		{"one server.json", one, []string{"a/b 1.0.0"}, ""},
		{"a list", "[" + one + "," + two + "]", []string{"a/b 1.0.0", "a/b 2.0.0"}, ""},
		{"an answer of the API", `{"servers":[{"server":` + one + `,"_meta":{}}],"metadata":{"count":1}}`, []string{"a/b 1.0.0"}, ""},
		{"the wrapped format", `{"version":"1.0.0","data":{"servers":[` + one + `],"groups":[{"name":"g","servers":[` + one + "," + two + `]}]}}`, []string{"a/b 1.0.0", "a/b 2.0.0"}, ""},
		{"the older format", `{"servers":{"files":{"image":"x:1","transport":"stdio","description":"d"}},"remote_servers":{"n.s/r":{"url":"https://x","description":"d"}}}`, []string{"io.github.stacklok/files 1.0.0", "n.s/r 1.0.0"}, ""},
		{"a version twice", "[" + one + "," + one + "]", []string{"a/b 1.0.0"}, "twice"},
		{"half a file", one[:20], nil, "JSON"},
		{"something else", `{"x":1}`, nil, "neither"},
		{"a malformed entry of a list", "[" + one + `,{"name":"a/b","version":"1/0"},7]`, []string{"a/b 1.0.0"}, "server 2: "},
		{"a malformed item of a page", `{"servers":[{},{"server":` + one + `},{"server":{"name":"a/b","version":".."}}]}`, []string{"a/b 1.0.0"}, "servers[0] has no server"},
		{"a malformed entry of the wrapped format", "{\"data\":{\"servers\":[" + one + ",\n{\"name\":\"a/b\",\"version\":\"1 0\"}]}}", []string{"a/b 1.0.0"}, "line 2"},
		{"a malformed entry of the older format", `{"servers":{"f":{"image":"x"},"g":{},"a b":{"image":"x"}}}`, []string{"io.github.stacklok/f 1.0.0"}, "neither an image nor a URL"},
		{"no servers", `{"data":{}}`, nil, "no \"servers\""},
		{"a fault in the wrapped format", "{\n\"data\":{\n\"servers\":[{\"name\":\"a b\"}]}}", nil, "line 3"},
		{"an unknown key in the older format", `{"servers":{"f":{"imag":"x"}}}`, nil, "image"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			docs, leftOut, err := FromFile([]byte(test.content))
			if err == nil && leftOut.Malformed > 0 {
				err = errors.New(leftOut.Why())
			}
			if (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Fatalf("%v", err)
			}
			var got []string
			for _, d := range docs {
				got = append(got, d.Name+" "+d.Version)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A converted file of the older format has the same entries as when read directly.
func TestConvert_Lossless(t *testing.T) {
	for _, file := range []string{"registry-older-format.json", "registry-wrapped-format.json"} {
		content := realFile(t, file)
		// Compact, so that what is kept as it was written compares.
		var compact bytes.Buffer
		if err := json.Compact(&compact, content); err != nil {
			t.Fatal(err)
		}
		content = compact.Bytes()
		direct, _, err := registry.Parse(content)
		if err != nil {
			t.Fatal(err)
		}
		docs, _, err := FromFile(content)
		if err != nil {
			t.Fatal(err)
		}
		if len(docs) != len(direct) {
			t.Fatalf("%s: %d documents, %d entries", file, len(docs), len(direct))
		}
		var raws []json.RawMessage
		for _, d := range docs {
			raws = append(raws, d.Raw)
		}
		again, err := json.Marshal(map[string]any{"version": "1.0.0", "data": map[string]any{"servers": raws}})
		if err != nil {
			t.Fatal(err)
		}
		converted, _, err := registry.Parse(again)
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*registry.Entry{}
		for _, e := range converted {
			byName[e.Name] = e
		}
		for _, want := range direct {
			name := want.Name
			if !strings.Contains(name, "/") {
				name = olderNamespace + "/" + name
			}
			got := byName[name]
			if got == nil {
				t.Errorf("%s: %s is lost", file, name)
				continue
			}
			if strings.Contains(file, "older") {
				got.Name, got.Version = want.Name, want.Version
				if want.Description == "" {
					got.Description = ""
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s: %s", file, name, diff)
			}
		}
		// And every tag and tool of the file is still in the documents.
		var all any
		if err := json.Unmarshal(content, &all); err != nil {
			t.Fatal(err)
		}
		text := string(again)
		for _, leaf := range leaves(all) {
			encoded, _ := json.Marshal(leaf)
			if !strings.Contains(text, string(encoded)) {
				t.Errorf("%s: %s is lost", file, encoded)
			}
		}
	}
}

// leaves are all texts below the servers of a file.
func leaves(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, leaves(e)...)
		}
		return out
	case map[string]any:
		var out []string
		for key, e := range v {
			if key != "last_updated" && key != "$schema" && key != "version" && key != "groups" {
				out = append(out, leaves(e)...)
			}
		}
		return out
	}
	return nil
}

func realFile(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("THV_TEST_REGISTRY_DATA")
	if dir == "" {
		t.Skip("THV_TEST_REGISTRY_DATA does not name the folder of real registry files")
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"name":"a/b","version":"1","description":"d","a":{"b":[1,"\\\"x"]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(doc.Raw)
		if err != nil {
			t.Fatalf("what Parse made it refuses: %v", err)
		}
		if diff := cmp.Diff(doc, again); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(whole))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := Validate(raw); err == nil {
			if _, err := Parse(raw); err != nil {
				t.Errorf("Validate accepts what Parse refuses: %v", err)
			}
		}
	})
}

func FuzzFromFile(f *testing.F) {
	f.Add([]byte(`{"servers":{"files":{"image":"x:1","transport":"stdio"}},"remote_servers":{"r":{"url":"https://x"}}}`))
	f.Add([]byte(`{"version":"1.0.0","data":{"servers":[` + whole + `]}}`))
	f.Add([]byte(`{"servers":[{"server":` + whole + `}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		docs, _, err := FromFile(content)
		if err != nil {
			return
		}
		for _, d := range docs {
			if _, err := Parse(d.Raw); err != nil {
				t.Error(err)
			}
		}
	})
}

func BenchmarkFileOf20000Documents(b *testing.B) {
	var list []string
	for i := range 20_000 {
		list = append(list, strings.Replace(whole, "weather\"", fmt.Sprintf("weather%d\"", i), 1))
	}
	content := []byte(`{"version":"1.0.0","data":{"servers":[` + strings.Join(list, ",") + `]}}`)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if docs, _, err := FromFile(content); err != nil || len(docs) != 20_000 {
			b.Fatal(len(docs), err)
		}
	}
}
