package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const complete = `
auth:
  oauth:
    resourceUrl: https://registry.example.com
    providers:
      - name: corp
        issuerUrl: https://login.example.com/
        audience: registry
`

func parse(t *testing.T, text string) (*Config, error) {
	t.Helper()
	return Parse([]byte(text), "/etc/thv", "/var/lib/thv")
}

func TestLoad_AuthOnly(t *testing.T) {
	c, err := parse(t, complete)
	if err != nil {
		t.Fatal(err)
	}
	if c.Auth.Mode != ModeOAuth || c.Auth.OAuth.Realm != "mcp-registry" {
		t.Errorf("mode %q, realm %q", c.Auth.Mode, c.Auth.OAuth.Realm)
	}
	if c.Database.SQLite == nil || c.Database.SQLite.Path != "/var/lib/thv/registry.db" {
		t.Errorf("database %+v", c.Database)
	}
	want := []Registry{{Name: "default", Sources: []string{"default"}}}
	if diff := cmp.Diff(want, c.Registries); diff != "" {
		t.Error(diff)
	}
	if d := c.Definitions(); d[0].Managed != "default" {
		t.Errorf("the default registry is not managed: %+v", d)
	}
}

func TestLoad_RelativePaths(t *testing.T) {
	c, err := parse(t, complete+"        caCertPath: ca.pem\n        authTokenFile: /run/token\n")
	if err != nil {
		t.Fatal(err)
	}
	p := c.Auth.OAuth.Providers[0]
	if p.CACertPath != "/etc/thv/ca.pem" || p.AuthTokenFile != "/run/token" {
		t.Errorf("%+v", p)
	}
}

func TestLoad_AnonymousExplicit(t *testing.T) {
	if _, err := parse(t, "auth:\n  mode: anonymous\n"); err != nil {
		t.Error(err)
	}
	_, err := parse(t, "")
	if err == nil {
		t.Fatal("nothing at all was accepted")
	}
	for _, word := range []string{"auth.oauth.resourceUrl", "auth.oauth.providers", "anonymous"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not speak of %s:\n%v", word, err)
		}
	}
}

// Each faulty configuration is refused with words that lead to the fault.
func TestValidate_Faults(t *testing.T) {
	with := func(extra string) string { return complete + extra }
	tests := []struct {
		name, text string
		want       []string
	}{
		{"an unknown key, with the nearest one", with("databse: {}\n"), []string{"line 9", "databse", `did you mean "database"?`}},
		{"a key in another case", "Auth:\n  mode: anonymous\n", []string{"line 1", "Auth"}},
		{"an unknown key deep inside", with("sources:\n  - name: a\n    git: {repo: x}\n"), []string{"sources[0].git.repo", "repository"}},
		{"a repeated key", "auth:\n  mode: anonymous\nauth:\n  mode: oauth\n", []string{"already"}},
		{"a second document", with("---\nauth: {}\n"), []string{"second document"}},
		{"a number for a list", with("sources: 3\n"), []string{"line 9", "sources:", "a list"}},
		{"a text for a number", with("database:\n  postgres: {url: x, maxConnections: many}\n"), []string{"line 10", "database.postgres.maxConnections", "number", "many"}},
		{"a list for a text", with("audit: {file: [a]}\n"), []string{"audit.file", "a text"}},
		{"a number for true or false", with("web: {disabled: 7}\n"), []string{"web.disabled", "true or false"}},
		{"a text for a section", with("sources:\n  - name: a\n    file: x\n"), []string{"line 11", "sources[0].file", "section"}},
		{"a text for a list, deep inside", with("authz:\n  rules:\n    - claims: {groups: ops}\n"), []string{"authz.rules[0].claims.groups", "a list"}},
		{"no YAML", "auth: [", []string{"line"}},
		{"a list", "- a\n", []string{"not a list of settings"}},
		{"an unknown mode", "auth:\n  mode: basic\n", []string{"auth.mode", "basic"}},
		{"oauth in anonymous mode", "auth:\n  mode: anonymous\n  oauth:\n    resourceUrl: https://x.example\n", []string{"auth.oauth", "anonymous"}},
		{"several at once", "auth:\n  oauth:\n    resourceUrl: ftp://x\n    providers:\n      - name: a\n        issuerUrl: http://idp.example\n      - name: a\n        issuerUrl: https://idp.example\n        audience: x\n", []string{"resourceUrl", "providers[0].issuerUrl", "HTTPS", "providers[0].audience", "providers[1].name"}},
		{"a public path that is no path", strings.Replace(complete, "providers:", "publicPaths: [\"registry\", \"/\", \"/a/../b\", \"/a%2fb\", \"/a//b\", \"/x*\", \"/a\\\\b\"]\n    providers:", 1), []string{"publicPaths[0]", "publicPaths[1]", "publicPaths[2]", "publicPaths[3]", "publicPaths[4]", "publicPaths[5]", "publicPaths[6]"}},
		{"a source without a kind", with("sources:\n  - name: a\n"), []string{"sources[0]", "exactly one"}},
		{"a source of two kinds", with("sources:\n  - name: a\n    managed: {}\n    file: {path: x}\n"), []string{"sources[0]", "there are 2"}},
		{"a source's name", with("sources:\n  - name: A_b\n    managed: {}\n"), []string{"sources[0].name"}},
		{"a duration", with("sources:\n  - name: a\n    file: {path: x}\n    interval: soon\n"), []string{"line 12", "sources[0].interval", "soon"}},
		{"a negative interval", with("sources:\n  - name: a\n    file: {path: x}\n    interval: -1s\n"), []string{"sources[0].interval"}},
		{"a managed source with an interval", with("sources:\n  - name: a\n    managed: {}\n    interval: 1m\n"), []string{"sources[0].interval"}},
		{"branch and tag", with("sources:\n  - name: a\n    git: {repository: https://x.example/r.git, branch: a, tag: b}\n"), []string{"exclude each other"}},
		{"a password in a URL", with("sources:\n  - name: a\n    git: {repository: \"https://u:hunter2@x.example/r.git\"}\n"), []string{"password"}},
		{"a path out of the repository", with("sources:\n  - name: a\n    git: {repository: https://x.example/r.git, path: ../../etc/passwd}\n"), []string{"path"}},
		{"an API over plain HTTP", with("sources:\n  - name: a\n    api: {endpoint: http://x.example}\n"), []string{"api.endpoint", "HTTPS"}},
		{"an unknown source", with("sources:\n  - name: a\n    managed: {}\nregistries:\n  - name: r\n    sources: [b]\n"), []string{"registries[0].sources", `"b"`}},
		{"two managed sources in a registry", with("sources:\n  - name: a\n    managed: {}\n  - name: b\n    managed: {}\n"), []string{"registries[0].sources", "managed"}},
		{"two databases", with("database:\n  sqlite: {path: x}\n  postgres: {url: \"postgres://h/d\"}\n"), []string{"exclude each other"}},
		{"allowed hosts that are no hosts", with("allowedHosts: [\"*\", \"https://a.example\", \"a.example/x\", \"\", \"a b\"]\n"), []string{"allowedHosts[0]", "allowedHosts[1]", "allowedHosts[2]", "allowedHosts[3]", "allowedHosts[4]"}},
		{"an unknown audit.onFailure", with("audit: {onFailure: ignore}\n"), []string{"audit.onFailure", "reject"}},
		{"a rule for nobody", with("authz:\n  rules: []\n"), []string{"authz.rules"}},
		{"a rule that lets everybody write", with("authz:\n  rules:\n    - actions: [write]\n"), []string{"authz.rules[0]"}},
		{"a web login without its provider", with("web:\n  login: {provider: other, clientId: x}\n"), []string{"web.login.provider"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := parse(t, test.text)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not speak of %q:\n%v", word, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

func TestLoad_AllFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.yaml")
	if err := os.WriteFile(path, []byte("auth:\n  oauth: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "2 faults") {
		t.Errorf("%v", err)
	}
	if _, err := Load(path+".missing", ""); err == nil {
		t.Error("a missing file was accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(complete))
	f.Add([]byte("auth: &a\n  mode: anonymous\nsources: [{name: a, managed: {}}]\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := Parse(content, "/etc/thv", "/var/lib/thv")
		if err == nil && c.Validate() != nil {
			t.Error("Parse accepts what Validate refuses")
		}
	})
}

func TestLoad_PlainHTTPWarning(t *testing.T) {
	for target, want := range map[string]bool{
		"http://registry.example.com": true, "http://192.0.2.1": true, "https://registry.example.com": false, "http://localhost:8080": false,
		"http://127.0.0.1:8080": false, "http://10.0.0.1": false, "http://registry": false, "http://registry.ns.svc": false, "http://a.svc.cluster.local": false,
		"http://registry.test": false, "http://registry.internal": false,
	} {
		c := &Config{Auth: Auth{Mode: ModeOAuth, OAuth: &OAuth{ResourceURL: target}}}
		if got := c.Warnings(); (len(got) > 0) != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}
