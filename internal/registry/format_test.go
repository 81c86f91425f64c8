package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wrap puts server.json objects into the wrapped format.
func wrap(servers ...string) string {
	return `{"version": "1.0.0", "meta": {"last_updated": "2026-11-01T00:00:00Z"}, "data": {"servers": [` + strings.Join(servers, ",\n") + `]}}`
}

// parse is Parse where an entry that is left out is an error.
func parse(content []byte) ([]*Entry, error) {
	entries, leftOut, err := Parse(content)
	if err == nil && leftOut.Malformed > 0 {
		err = errors.New(leftOut.Why())
	}
	return entries, err
}

const minimal = `{"name": "io.example/a", "description": "d", "version": "1.0.0"}`

func TestParseServer(t *testing.T) {
	got, err := parse([]byte(wrap(`{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name": "io.example/a", "title": "A", "description": "An example", "version": "1.2.3",
		"repository": {"url": "https://example.com/a", "source": "github"}, "websiteUrl": "https://example.com",
		"icons": [{"src": "https://example.com/i.png"}], "somethingNew": {"x": 1},
		"packages": [{
			"registryType": "oci", "identifier": "ghcr.io/example/a:1.2.3", "runtimeHint": "docker", "newField": true,
			"transport": {"type": "streamable-http", "url": "http://localhost:{port}/mcp"},
			"runtimeArguments": [{"type": "named", "name": "-e", "value": "PORT={port}", "variables": {"port": {"default": "8080", "format": "number"}}}],
			"packageArguments": [{"type": "positional", "valueHint": "dir", "default": "/data", "isRepeated": true}],
			"environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true, "placeholder": "abc", "choices": ["x", "y"]}]
		}],
		"remotes": [{"type": "sse", "url": "https://{t}.example.com/sse", "variables": {"t": {"isRequired": true}}, "headers": [{"name": "Authorization", "value": "Bearer {k}", "variables": {"k": {"isSecret": true}}}]}],
		"_meta": {"io.modelcontextprotocol.registry/publisher-provided": {
			"com.somebody": "anything at all",
			"io.github.stacklok": {"ghcr.io/example/a:1.2.3": {
				"status": "Deprecated", "tier": "Official", "tags": ["t"], "tools": ["x"], "args": ["--fast"], "stateless": true, "proxy_port": 9000,
				"permissions": {"network": {"outbound": {}}}, "provenance": {"sigstore_url": "s"}, "metadata": {"stars": 1}
			}}
		}}
	}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := []*Entry{{
		Name: "io.example/a", Title: "A", Description: "An example", Version: "1.2.3", Status: Deprecated,
		Repository: "https://example.com/a", WebsiteURL: "https://example.com",
		Tier: "Official", Tags: []string{"t"}, Tools: []string{"x"},
		Packages: []Package{{
			RegistryType: "oci", Identifier: "ghcr.io/example/a:1.2.3", RuntimeHint: "docker",
			Transport:        Transport{Type: "streamable-http", URL: "http://localhost:{port}/mcp"},
			RuntimeArguments: []Argument{{Type: "named", Name: "-e", Input: Input{Value: "PORT={port}", Variables: map[string]Input{"port": {Default: "8080", Format: "number"}}}}},
			PackageArguments: []Argument{{Type: "positional", ValueHint: "dir", Repeated: true, Input: Input{Default: "/data"}}},
			Environment:      []KeyValue{{Name: "TOKEN", Input: Input{IsRequired: true, IsSecret: true, Placeholder: "abc", Choices: []string{"x", "y"}}}},
			Hints: Hints{
				Args: []string{"--fast"}, Stateless: true, ProxyPort: 9000,
				Permissions: []byte(`{"network": {"outbound": {}}}`), Provenance: []byte(`{"sigstore_url": "s"}`),
			},
		}},
		Remotes: []Remote{{
			Type: "sse", URL: "https://{t}.example.com/sse", Variables: map[string]Input{"t": {IsRequired: true}},
			Headers: []KeyValue{{Name: "Authorization", Input: Input{Value: "Bearer {k}", Variables: map[string]Input{"k": {IsSecret: true}}}}},
		}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseServer_GoPackage(t *testing.T) {
	got, err := parse([]byte(wrap(`{"name": "io.example/a", "version": "1.0.0", "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"package": "go://example.com/m/cmd@v1.2.3", "tags": ["t"]}}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{{RegistryType: "go", Identifier: "example.com/m/cmd", Version: "v1.2.3", Transport: Transport{Type: "stdio"}}}
	if d := cmp.Diff(want, got[0].Packages); d != "" {
		t.Error(d)
	}
}

func TestParse_OlderFormat(t *testing.T) {
	got, err := parse([]byte(`{
		"$schema": "s", "version": "1.0.0", "last_updated": "2026-02-18T00:00:00Z",
		"servers": {"a": {
			"title": "A", "description": "An example", "tier": "Community", "status": "Active", "transport": "sse", "stateless": false,
			"image": "ghcr.io/example/a:1", "target_port": 8001, "proxy_port": 9001, "args": ["--x"], "docker_tags": ["1"],
			"permissions": {"read": ["/etc"]}, "provenance": {"sigstore_url": "s"}, "tools": ["x"], "tags": ["t"], "overview": "o",
			"repository_url": "https://example.com/a", "metadata": {"stars": 1, "anything": true}, "custom_metadata": {"k": 1}, "tool_definitions": [{"name": "x"}],
			"env_vars": [{"name": "K", "description": "d", "required": true, "default": "v", "secret": true}]
		}},
		"remote_servers": {"b": {
			"url": "https://example.com/mcp", "transport": "streamable-http", "status": "Deprecated", "oauth_config": {"use_pkce": true},
			"headers": [{"name": "X-Key", "required": true, "secret": true, "choices": ["1"]}], "env_vars": [{"name": "E"}]
		}},
		"groups": [{"name": "g", "description": "d", "servers": {
			"a": {"image": "other:1", "transport": "stdio"}, "c": {"image": "c:1", "transport": "stdio"}
		}, "remote_servers": {"c": {"url": "https://c.example/mcp"}}}]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []*Entry{
		{
			Name: "a", Title: "A", Description: "An example", Status: Active, Tier: "Community", Tags: []string{"t"}, Tools: []string{"x"}, Repository: "https://example.com/a",
			Packages: []Package{{
				RegistryType: "oci", Identifier: "ghcr.io/example/a:1", Transport: Transport{Type: "sse", URL: "http://localhost:8001"},
				Environment: []KeyValue{{Name: "K", Input: Input{Description: "d", IsRequired: true, Default: "v", IsSecret: true}}},
				Hints:       Hints{Args: []string{"--x"}, ProxyPort: 9001, Permissions: []byte(`{"read": ["/etc"]}`), Provenance: []byte(`{"sigstore_url": "s"}`)},
			}},
		},
		{
			Name: "b", Status: Deprecated,
			Remotes: []Remote{{
				Type: "streamable-http", URL: "https://example.com/mcp",
				Headers: []KeyValue{{Name: "X-Key", Input: Input{IsRequired: true, IsSecret: true, Choices: []string{"1"}}}},
				Hints:   Hints{OAuth: []byte(`{"use_pkce": true}`), Environment: []KeyValue{{Name: "E"}}},
			}},
		},
		{
			Name: "c", Status: Active,
			Packages: []Package{{RegistryType: "oci", Identifier: "c:1", Transport: Transport{Type: "stdio"}}},
			Remotes:  []Remote{{Type: "streamable-http", URL: "https://c.example/mcp"}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParse_FaultLine(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"empty":                          {"", []string{"it is empty"}},
		"a web page":                     {"<html>\n</html>", []string{"line 1", "not JSON"}},
		"torn":                           {"{\n\"data\": {\n\"servers\": [", []string{"line 3", "not JSON"}},
		"two documents":                  {wrap() + "\n{}", []string{"line 2", "not JSON"}},
		"a list":                         {"[]", []string{"line 1", "must be an object"}},
		"something else":                 {`{"name": "x"}`, []string{"not a registry file", `"data"`, `"remote_servers"`}},
		"an answer of the API":           {`{"servers": [], "metadata": {}}`, []string{"registry API"}},
		"an unknown key at the root":     {"{\"data\": {\"servers\": []},\n\"verison\": 1}", []string{"line 2", `"verison"`, `did you mean "version"?`}},
		"an unknown key in data":         {`{"data": {"serverz": []}}`, []string{"line 1", `did you mean "servers"?`}},
		"a key twice":                    {"{\"data\": {},\n\"data\": {}}", []string{"line 2", "twice"}},
		"an unknown key of an image":     {"{\"servers\": {\n\"a\": {\"image\": \"i\",\n\"target_prt\": 1}}}", []string{"line 3", `server "a"`, `did you mean "target_port"?`}},
		"an unknown key of a variable":   {`{"servers": {"a": {"image": "i", "env_vars": [{"nam": "x"}]}}}`, []string{`server "a"`, `did you mean "name"?`}},
		"a name twice, older":            {"{\"servers\": {\"a\": {\"image\": \"i\"},\n\"a\": {\"image\": \"evil\"}}}", []string{"line 2", "twice"}},
		"a name and version twice":       {wrap(minimal, minimal), []string{"line 2", "io.example/a 1.0.0", "twice"}},
		"a wrong type, older":            {"{\"servers\": {\"a\": {\n\"image\": \"i\", \"target_port\": \"x\"}}}", []string{"line 2", "target_port", "string", "number"}},
		"a wrong type, wrapped":          {wrap("\n" + `{"name": "io.example/a", "packages": {}}`), []string{"line 2", "packages", "object", "list"}},
		"no name":                        {wrap(`{"description": "d"}`), []string{"no name"}},
		"a name that is none":            {wrap(`{"name": "../../etc"}`), []string{"../../etc", "namespace/name"}},
		"a name with two slashes":        {wrap(`{"name": "a/b/c"}`), []string{"a/b/c"}},
		"a name with an escape code":     {wrap(`{"name": "a/b\u001b[31m"}`), []string{"namespace/name"}},
		"a version that is a path":       {wrap(`{"name": "a/b", "version": "../x"}`), []string{"version"}},
		"a status that is none":          {wrap(`{"name": "a/b", "status": "weird"}`), []string{"weird", "active"}},
		"a package without identifier":   {wrap(`{"name": "a/b", "packages": [{"registryType": "npm"}]}`), []string{"a/b", "identifier"}},
		"a remote without URL":           {wrap(`{"name": "a/b", "remotes": [{"type": "sse"}]}`), []string{"a/b", "no URL"}},
		"neither image nor URL":          {`{"servers": {"a": {}}}`, []string{`"a"`, "neither an image nor a URL"}},
		"a port that is none":            {`{"servers": {"a": {"image": "i", "target_port": 70000}}}`, []string{"70000"}},
		"a proxy port that is none":      {`{"servers": {"a": {"image": "i", "proxy_port": -1}}}`, []string{"-1"}},
		"our block with another package": {wrap(`{"name": "a/b", "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"package": "npx://x"}}}}`), []string{"npx://x", "go://"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(c.content))
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestParse_Allowed(t *testing.T) {
	for name, content := range map[string]string{
		"a byte order mark":                "\xef\xbb\xbf" + wrap(minimal),
		"two versions of a server":         wrap(minimal, strings.Replace(minimal, "1.0.0", "1.0.1", 1)),
		"skills and plugins":               `{"data": {"servers": [` + minimal + `], "skills": [{"x": 1}], "plugins": []}}`,
		"groups, which may repeat":         `{"data": {"servers": [` + minimal + `], "groups": [{"name": "g", "description": "d", "servers": [` + minimal + `]}]}}`,
		"no groups":                        `{"data": {"servers": [` + minimal + `], "groups": null}}`,
		"remote servers only":              `{"servers": null, "remote_servers": {"a": {"url": "https://x.example"}}}`,
		"free form under _meta":            wrap(`{"name": "a/b", "_meta": {"x": [1], "io.modelcontextprotocol.registry/publisher-provided": [1]}}`),
		"a null block":                     wrap(`{"name": "a/b", "_meta": {"io.modelcontextprotocol.registry/publisher-provided": null}}`),
		"hints on the wire are not ours":   wrap(`{"name": "a/b", "packages": [{"registryType": "npm", "identifier": "x", "hints": {"proxyPort": 1}}]}`),
		"another publisher's other blocks": wrap(`{"name": "a/b", "packages": [{"registryType": "npm", "identifier": "x"}], "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"com.x": {"y": 7}}}}`),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(content))
			if err != nil || len(got) == 0 {
				t.Fatalf("%d entries, %v", len(got), err)
			}
			for _, p := range got[0].Packages {
				if d := cmp.Diff(Hints{}, p.Hints); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(wrap(minimal)))
	f.Add([]byte(`{"servers": {"a": {"image": "i", "transport": "sse", "target_port": 1, "env_vars": [{"name": "x"}]}}, "remote_servers": {"b": {"url": "u"}}, "groups": [{"servers": {}}]}`))
	f.Add([]byte(`{"data": {"servers": [{"name": "a/b", "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"package": "go://x"}, "y": {"z": {}}}}}]}}`))
	f.Add([]byte("{\"data\":{\"servers\":[{\"name\":\"\xff\"}]}}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, _, err := Parse(content)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		for _, e := range entries {
			if !ValidName(e.Name) || e.Status != Active && e.Status != Deprecated && e.Status != Deleted {
				t.Errorf("accepted: %+v", e)
			}
		}
	})
}

func FuzzParsePage(f *testing.F) {
	f.Add([]byte(`{"servers": [{"server": ` + minimal + `, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active"}}}], "metadata": {"nextCursor": "x", "count": 1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parsePage(body)
		if err != nil {
			return
		}
		for _, e := range p.entries {
			if !ValidName(e.Name) {
				t.Errorf("accepted: %+v", e)
			}
		}
	})
}
