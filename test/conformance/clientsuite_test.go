package main

import (
	"os"
	"path/filepath"
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

// The suite's list names OAuth scenarios too, which are not run.
func TestRunClientSuite_LeavesOutAuth(t *testing.T) {
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
	r, err := h.runClientSuite(t.Context(), cell{harness: session}, filepath.Join(t.TempDir(), "1"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.scored) != 1 || r.scored[0] != "tools_call" || len(r.unscored) != 0 {
		t.Errorf("scenarios: scored %q, not scored %q", r.scored, r.unscored)
	}
	if len(r.failures) != 1 || r.failures["tools_call"] == nil {
		t.Errorf("failures: %q", r.failures)
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
