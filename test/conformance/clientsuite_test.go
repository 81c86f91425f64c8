package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The suite passes the command to a shell.
func TestClientCommand_Quotes(t *testing.T) {
	h := &harness{thv: "/a folder/thv", cache: "/a folder"}
	direct, err := h.clientCommand(cell{}, "log")
	if err != nil || direct != "'/a folder/everything-client'" {
		t.Errorf("clientCommand returned %s, %v", direct, err)
	}
	gateway, err := h.clientCommand(cell{gateway: true}, "log")
	if err != nil || !strings.HasSuffix(gateway, " behind -thv '/a folder/thv' -client '/a folder/everything-client' -log log") {
		t.Errorf("clientCommand returned %s, %v", gateway, err)
	}
	if _, err := (&harness{cache: "/new\nline"}).clientCommand(cell{}, "log"); err == nil {
		t.Error("a path with a line feed was accepted")
	}
}

// The scenarios about OAuth are run in cells of their own.
func TestRunClientSuite_SeparatesOAuth(t *testing.T) {
	h := &harness{cache: t.TempDir(), node: "/bin/false"}
	requirements := filepath.Join(h.packageDir(), "requirements")
	if err := os.MkdirAll(requirements, 0o755); err != nil {
		t.Fatal(err)
	}
	list := "server: [ping]\nclient: [tools_call, auth/metadata-default]\n" +
		"not_scored: [{scenario: auth/dpop, leg: client}, {scenario: tasks, leg: server}]\n"
	if err := os.WriteFile(filepath.Join(requirements, session+".yaml"), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	for oauth, want := range map[bool]struct{ scored, unscored []string }{
		false: {[]string{"tools_call"}, nil},
		true:  {[]string{"auth/metadata-default"}, []string{"auth/dpop"}},
	} {
		r, err := h.runClientSuite(t.Context(), cell{harness: session, backend: backend{oauth: oauth}}, filepath.Join(t.TempDir(), "1"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.scored, want.scored) || !slices.Equal(r.unscored, want.unscored) {
			t.Errorf("oauth %t: scored %q, not scored %q", oauth, r.scored, r.unscored)
		}
		for _, s := range r.judged() {
			if r.failures[s] == nil {
				t.Errorf("oauth %t: %s did not fail: %q", oauth, s, r.failures)
			}
		}
	}
}

// The suite writes the checks of a scenario about OAuth in a folder auth.
func TestRead_FolderOfOAuth(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tools_call-2026-11-23T19-22-07-880Z", "auth/dpop-2026-11-23T19-22-07-880Z"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "checks.json"), []byte(`[{"id":"a","status":"SUCCESS"}]`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var r result
	if err := r.read(dir, ""); err != nil {
		t.Fatal(err)
	}
	if len(r.checks) != 2 || len(r.checks["tools_call"]) != 1 || len(r.checks["auth/dpop"]) != 1 {
		t.Errorf("read %v", r.checks)
	}
}

// With -oauth, thv finds a browser and the client's credentials, and a call that fails is
// made again after a login.
func TestBehind_OAuth(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("PATH", os.Getenv("PATH"))
	t.Setenv("THV_CLIENT_METADATA_URL", "")
	t.Setenv("MCP_CONFORMANCE_CONTEXT", `{"client_id":"me","client_secret":"hidden"}`)
	calls := filepath.Join(dir, "calls")
	thv := filepath.Join(dir, "thv")
	client := filepath.Join(dir, "client")
	for path, script := range map[string]string{
		thv: "#!/bin/sh\necho thv $* $THV_CLIENT_METADATA_URL >>" + calls + "\n[ $1 != run ] || grep -q ' browse ' $(command -v xdg-open) || exit 1\n" +
			"[ $1 != run ] || echo '{\"url\": \"http://127.0.0.1:2/mcp\"}'\n",
		client: "#!/bin/sh\necho client >>" + calls + "\nexit 3\n",
	} {
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := behind(t.Context(), []string{"-thv", thv, "-client", client, "-oauth", "-log", filepath.Join(dir, "log"), "http://localhost:1"})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("behind returned %v, and the client failed", err)
	}
	got, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	order := regexp.MustCompile(`^thv run http://localhost:1 .*--remote-auth-callback-port \d+ --remote-auth-client-id me --remote-auth-client-secret hidden https://conformance-test.local/client-metadata.json
client
thv login conformance-\d+ .*
client
thv logs .*
thv rm .*
$`)
	if !order.Match(got) {
		t.Errorf("calls:\n%s", got)
	}
}

// The browser follows redirects to the client, and fails without one.
func TestBrowse(t *testing.T) {
	var code string
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { code = r.URL.Query().Get("code") }))
	t.Cleanup(back.Close)
	server := httptest.NewServer(http.RedirectHandler(back.URL+"/callback?code=c", http.StatusFound))
	t.Cleanup(server.Close)
	if err := browse(t.Context(), []string{server.URL}); err != nil || code != "c" {
		t.Errorf("code %q, %v", code, err)
	}
	if err := browse(t.Context(), nil); err == nil {
		t.Error("no URL was accepted")
	}
}

// Every scenario about OAuth is in a table, with the reason of an expected failure.
func TestDocument_OAuth(t *testing.T) {
	of := func(revision string) outcome {
		return outcome{
			cell: cell{harness: revision, backend: backend{oauth: true}, gateway: true}, runs: 1,
			checks: map[string][]check{
				"auth/a": {{Status: success}, {Status: success}}, "auth/b": {{Status: failure}}, "auth/c": {{Status: failure}},
			},
			failed: map[string]int{"auth/b": 1, "auth/c": 1}, expected: map[string]string{"auth/b": "because"},
		}
	}
	old := of(session)
	delete(old.checks, "auth/a")
	text := string(document([]outcome{old, of(stateless)}, 1, nil))
	for _, want := range []string{
		"| scenario | 2025-11-25 | 2026-07-28 | reason of a failure |\n",
		"| a | - | passes, 2/2 checks |  |\n",
		"| b | expected failure | expected failure | because |\n",
		"| c | **fails** | **fails** | **not expected** |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the document", want)
		}
	}
}

// The client gets the gateway's URL, and the workload is removed after it has ended.
func TestBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	calls := filepath.Join(dir, "calls")
	thv := filepath.Join(dir, "thv")
	client := filepath.Join(dir, "client")
	for path, script := range map[string]string{
		thv:    "#!/bin/sh\necho thv $1 $2 >>" + calls + "\n[ $1 != run ] || echo '{\"url\": \"http://127.0.0.1:2/mcp\"}'\n",
		client: "#!/bin/sh\necho client $1 >>" + calls + "\nexit 3\n",
	} {
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := behind(t.Context(), []string{"-thv", thv, "-client", client, "-log", filepath.Join(dir, "log"), "http://localhost:1"})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("behind returned %v, and the client failed", err)
	}
	got, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	want := []string{"thv run http://localhost:1", "client http://localhost:2/mcp", "thv logs conformance-", "thv rm --all"}
	if len(lines) != len(want) {
		t.Fatalf("calls: %q", lines)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("call %d is %q, want %q", i+1, lines[i], w)
		}
	}
}
