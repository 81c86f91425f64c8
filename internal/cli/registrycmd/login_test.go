package registrycmd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// registryApp is an App with a registry configured, and variables of its own.
func registryApp(t *testing.T, location string, variables ...string) *base.App {
	t.Helper()
	a := clitest.App(t)
	env := a.Env
	extra := map[string]string{}
	for i := 0; i < len(variables); i += 2 {
		extra[variables[i]] = variables[i+1]
	}
	a.Env = func(k string) string {
		if v, ok := extra[k]; ok {
			return v
		}
		return env(k)
	}
	if location != "" {
		if _, stderr, code := clitest.Run(t, a, "config", "set-registry", location); code != base.ExitOK {
			t.Fatal(stderr)
		}
	}
	return a
}

const oneServer = `{"servers": [{"server": {"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": "io.example/a", "description": "It does.", "version": "1.0.0"}}]}`

// guarded is a registry that answers who shows the token.
func guarded(t *testing.T, token string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", `Bearer realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(oneServer))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/registry/default"
}

func TestToken_FromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const token, wrong = "token-of-the-tests", "wrong-token-of-the-tests"
	url := guarded(t, token)
	for name, c := range map[string]struct {
		variables []string
		says      []string // nil is an answer
	}{
		"variable":                   {[]string{base.EnvRegistryToken, token}, nil},
		"variable with a line break": {[]string{base.EnvRegistryToken, token + "\n"}, nil},
		"file":                       {[]string{base.EnvRegistryTokenFile, write("good", token+"\n")}, nil},
		"both: the variable":         {[]string{base.EnvRegistryToken, token, base.EnvRegistryTokenFile, write("bad", wrong)}, nil},
		"an empty variable":          {[]string{base.EnvRegistryToken, "", base.EnvRegistryTokenFile, write("good2", token)}, nil},
		"neither":                    {nil, []string{"it requires a sign-in", "run `thv registry login`", url}},
		"a wrong variable":           {[]string{base.EnvRegistryToken, wrong}, []string{"does not accept the token in " + base.EnvRegistryToken}},
		"a wrong file":               {[]string{base.EnvRegistryTokenFile, write("wrong", wrong)}, []string{"does not accept the token in " + filepath.Join(dir, "wrong")}},
		"no file":                    {[]string{base.EnvRegistryTokenFile, dir + "/none"}, []string{base.EnvRegistryTokenFile, "no such file"}},
		"an empty file":              {[]string{base.EnvRegistryTokenFile, write("empty", " \n")}, []string{"does not hold an access token"}},
		"a file with more":           {[]string{base.EnvRegistryTokenFile, write("more", wrong+"\nHost: evil")}, []string{"does not hold an access token"}},
		"a large file":               {[]string{base.EnvRegistryTokenFile, write("large", strings.Repeat(wrong, 10000))}, []string{"too large"}},
		"a variable with a header":   {[]string{base.EnvRegistryToken, wrong + "\r\nHost: evil"}, []string{base.EnvRegistryToken, "does not hold an access token"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := registryApp(t, url, c.variables...)
			for _, args := range [][]string{{"registry", "list"}, {"registry", "search", "it"}, {"registry", "info", "a"}, {"run", "a"}} {
				stdout, stderr, code := clitest.Run(t, a, args...)
				if c.says == nil && args[0] != "run" && (code != base.ExitOK || !strings.Contains(stdout, "io.example/a")) {
					t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
				}
				for _, want := range c.says {
					if code != base.ExitFailure || !strings.Contains(stderr, want) {
						t.Errorf("%v: %d %s lacks %q", args, code, stderr, want)
					}
				}
				if c.says == nil && strings.Contains(stderr, "sign-in") {
					t.Errorf("%v: %s", args, stderr)
				}
				if strings.Contains(stdout+stderr, token) {
					t.Errorf("%v shows the token: %s%s", args, stdout, stderr)
				}
			}
		})
	}
}

func TestToken_FileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	a := registryApp(t, guarded(t, "second"), base.EnvRegistryTokenFile, file)
	for token, want := range map[string]int{"first": base.ExitFailure, "second": base.ExitOK} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := clitest.Run(t, a, "registry", "list"); code != want {
			t.Errorf("%s: %d %s", token, code, stderr)
		}
	}
}

func TestLogin_NotNeeded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(file, []byte(oneServer), 0o600); err != nil {
		t.Fatal(err)
	}
	for shown, location := range map[string]string{"built-in": "", file: file, "http": guarded(t, "")} {
		a := registryApp(t, location)
		stdout, stderr, code := clitest.Run(t, a, "registry", "login")
		if code != base.ExitOK || stdout != "" || !strings.Contains(stderr, "no sign-in is needed") || !strings.Contains(stderr, shown) {
			t.Errorf("%s: %d %s%s", shown, code, stdout, stderr)
		}
		stdout, _, code = clitest.Run(t, a, "registry", "login", "-o", "json")
		var got map[string]any
		if err := json.Unmarshal([]byte(stdout), &got); code != base.ExitOK || err != nil {
			t.Fatal(code, err)
		}
		delete(got, "registry")
		if diff := cmp.Diff(map[string]any{"signedIn": false, "needed": false}, got); diff != "" {
			t.Errorf("%s: %s", shown, diff)
		}
		if _, stderr, code := clitest.Run(t, a, "registry", "logout"); code != base.ExitOK || !strings.Contains(stderr, "there is no sign-in") {
			t.Errorf("%s: %d %s", shown, code, stderr)
		}
	}
}

func TestLogin_Errors(t *testing.T) {
	a := registryApp(t, guarded(t, "x"))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a registry that does not say where": {nil, base.ExitFailure, "does not say where to sign in"},
		"a port that is none":                {[]string{"--callback-port", "70000"}, base.ExitUsage, "--callback-port 70000"},
		"no time":                            {[]string{"--timeout", "0s"}, base.ExitUsage, "--timeout 0s"},
		"a secret without its client":        {[]string{"--client-secret-file", "/x"}, base.ExitUsage, "needs --client-id"},
		"a secret in an argument":            {[]string{"--client-secret", "x"}, base.ExitUsage, "unknown flag --client-secret"},
		"an argument":                        {[]string{"x"}, base.ExitUsage, "login"},
	} {
		_, stderr, code := clitest.Run(t, a, append([]string{"registry", "login"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: %d %s", name, code, stderr)
		}
	}
	a = registryApp(t, "http://registry.example/x")
	if _, stderr, code := clitest.Run(t, a, "registry", "login"); code != base.ExitFailure || !strings.Contains(stderr, "needs HTTPS") {
		t.Errorf("over plain HTTP: %d %s", code, stderr)
	}
}
