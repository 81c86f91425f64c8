package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// registryApp is an App with a registry configured, and variables of its own.
func registryApp(t *testing.T, location string, variables ...string) *App {
	t.Helper()
	a := testApp(t)
	base := a.Env
	extra := map[string]string{}
	for i := 0; i < len(variables); i += 2 {
		extra[variables[i]] = variables[i+1]
	}
	a.Env = func(k string) string {
		if v, ok := extra[k]; ok {
			return v
		}
		return base(k)
	}
	if location != "" {
		if _, stderr, code := thv(t, a, "config", "set-registry", location); code != exitOK {
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

func TestAMachineGivesItsTokenInTheEnvironment(t *testing.T) {
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
		"variable":                   {[]string{EnvRegistryToken, token}, nil},
		"variable with a line break": {[]string{EnvRegistryToken, token + "\n"}, nil},
		"file":                       {[]string{EnvRegistryTokenFile, write("good", token+"\n")}, nil},
		"both: the variable":         {[]string{EnvRegistryToken, token, EnvRegistryTokenFile, write("bad", wrong)}, nil},
		"an empty variable":          {[]string{EnvRegistryToken, "", EnvRegistryTokenFile, write("good2", token)}, nil},
		"neither":                    {nil, []string{"it requires a sign-in", "run `thv registry login`", url}},
		"a wrong variable":           {[]string{EnvRegistryToken, wrong}, []string{"does not accept the token in " + EnvRegistryToken}},
		"a wrong file":               {[]string{EnvRegistryTokenFile, write("wrong", wrong)}, []string{"does not accept the token in " + filepath.Join(dir, "wrong")}},
		"no file":                    {[]string{EnvRegistryTokenFile, dir + "/none"}, []string{EnvRegistryTokenFile, "no such file"}},
		"an empty file":              {[]string{EnvRegistryTokenFile, write("empty", " \n")}, []string{"does not hold an access token"}},
		"a file with more":           {[]string{EnvRegistryTokenFile, write("more", wrong+"\nHost: evil")}, []string{"does not hold an access token"}},
		"a large file":               {[]string{EnvRegistryTokenFile, write("large", strings.Repeat(wrong, 10000))}, []string{"too large"}},
		"a variable with a header":   {[]string{EnvRegistryToken, wrong + "\r\nHost: evil"}, []string{EnvRegistryToken, "does not hold an access token"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := registryApp(t, url, c.variables...)
			for _, args := range [][]string{{"registry", "list"}, {"registry", "search", "it"}, {"registry", "info", "a"}, {"run", "a"}} {
				stdout, stderr, code := thv(t, a, args...)
				if c.says == nil && args[0] != "run" && (code != exitOK || !strings.Contains(stdout, "io.example/a")) {
					t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
				}
				for _, want := range c.says {
					if code != exitFailure || !strings.Contains(stderr, want) {
						t.Errorf("%v: %d %s does not say %q", args, code, stderr, want)
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

func TestAFileWithATokenIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	a := registryApp(t, guarded(t, "second"), EnvRegistryTokenFile, file)
	for token, want := range map[string]int{"first": exitFailure, "second": exitOK} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := thv(t, a, "registry", "list"); code != want {
			t.Errorf("%s: %d %s", token, code, stderr)
		}
	}
}

func TestARegistryThatAnswersEverybodyNeedsNoSignIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(file, []byte(oneServer), 0o600); err != nil {
		t.Fatal(err)
	}
	for shown, location := range map[string]string{"built-in": "", file: file, "http": guarded(t, "")} {
		a := registryApp(t, location)
		stdout, stderr, code := thv(t, a, "registry", "login")
		if code != exitOK || stdout != "" || !strings.Contains(stderr, "no sign-in is needed") || !strings.Contains(stderr, shown) {
			t.Errorf("%s: %d %s%s", shown, code, stdout, stderr)
		}
		stdout, _, code = thv(t, a, "registry", "login", "-o", "json")
		var got map[string]any
		if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
			t.Fatal(code, err)
		}
		delete(got, "registry")
		if diff := cmp.Diff(map[string]any{"signedIn": false, "needed": false}, got); diff != "" {
			t.Errorf("%s: %s", shown, diff)
		}
		if _, stderr, code := thv(t, a, "registry", "logout"); code != exitOK || !strings.Contains(stderr, "nobody is signed in") {
			t.Errorf("%s: %d %s", shown, code, stderr)
		}
	}
}

func TestASignInThatCannotBeIsExplained(t *testing.T) {
	a := registryApp(t, guarded(t, "x"))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a registry that does not say where": {nil, exitFailure, "does not say where to sign in"},
		"a port that is none":                {[]string{"--callback-port", "70000"}, exitUsage, "--callback-port 70000"},
		"no time":                            {[]string{"--timeout", "0s"}, exitUsage, "--timeout 0s"},
		"a secret without its client":        {[]string{"--client-secret-file", "/x"}, exitUsage, "needs --client-id"},
		"a secret in an argument":            {[]string{"--client-secret", "x"}, exitUsage, "unknown flag --client-secret"},
		"an argument":                        {[]string{"x"}, exitUsage, "login"},
	} {
		_, stderr, code := thv(t, a, append([]string{"registry", "login"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: %d %s", name, code, stderr)
		}
	}
	a = registryApp(t, "http://registry.example/x")
	if _, stderr, code := thv(t, a, "registry", "login"); code != exitFailure || !strings.Contains(stderr, "needs HTTPS") {
		t.Errorf("over plain HTTP: %d %s", code, stderr)
	}
}
