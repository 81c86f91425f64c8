package mcpcmd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

func TestErrorStatus(t *testing.T) {
	for name, c := range map[string]struct {
		status            int
		contentType, body string
		want              string
	}{
		"an object":                {403, "application/json", `{"error":"forbidden_host","message":"not under this name"}`, "the answer is 403 Forbidden: not under this name"},
		"a JSON-RPC error":         {502, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server is gone"}}`, "the server is gone (JSON-RPC error -32603)"},
		"a JSON-RPC error, no id":  {400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}`, "bad (JSON-RPC error -32600)"},
		"an OAuth error":           {401, "application/json", `{"error":"invalid_token","error_description":"it expired"}`, "the answer is 401 Unauthorized: it expired"},
		"an error's name":          {401, "application/json", `{"error":"invalid_token"}`, "the answer is 401 Unauthorized: invalid_token"},
		"a text":                   {503, "text/plain; charset=utf-8", "come\nback \x1b[2Jlater", "the answer is 503 Service Unavailable: come back later"},
		"a long text":              {500, "text/plain", strings.Repeat("é", 100_000), "the answer is 500 Internal Server Error: " + strings.Repeat("é", 497) + "..."},
		"a page":                   {500, "text/html", "<html>", "the answer is 500 Internal Server Error"},
		"nothing":                  {500, "", "", "the answer is 500 Internal Server Error"},
		"a status without a name":  {599, "application/json", `[1]`, "the answer is 599"},
		"an object of other types": {500, "application/json", `{"error":1,"message":{}}`, "the answer is 500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer s.Close()
			for _, protocol := range []string{"", "session", "stateless"} {
				stdout, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "tools", s.URL, "--protocol", protocol)
				if code != base.ExitFailure || stdout != "" || stderr != "Error: connect to "+s.URL+": "+c.want+"\n" {
					t.Errorf("--protocol %q: exit code %d, %.200q", protocol, code, stderr)
				}
			}
		})
	}
}

func TestWorkloadErrors(t *testing.T) {
	app := clitest.LivingApp(t)
	var gone atomic.Bool
	server := clitest.RemoteServer(t, func(*http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	url := strings.TrimSpace(clitest.Must(t, app, "run", server, "--name", "one"))
	if _, stderr, code := clitest.Run(t, app, "mcp", "tools", url+"/nowhere"); code != base.ExitFailure || !strings.Contains(stderr, "404 Not Found: nothing is served at this path") {
		t.Errorf("another path: exit code %d, %s", code, stderr)
	}
	if _, stderr, code := clitest.Run(t, app, "mcp", "tools", "http://127.0.0.1:1/mcp"); code != base.ExitFailure || !strings.HasSuffix(stderr, "/mcp: dial tcp 127.0.0.1:1: connect: connection refused\n") {
		t.Errorf("nothing listens: exit code %d, %s", code, stderr)
	}
	// One sentence with the server's text and code, the same in both eras.
	for _, protocol := range []string{"session", "stateless"} {
		_, stderr, code := clitest.Run(t, app, "mcp", "call", "one", "nosuch", "--protocol", protocol)
		if want := "Error: call nosuch: unknown tool \"nosuch\" (JSON-RPC error -32602)\n"; code != base.ExitFailure || stderr != want {
			t.Errorf("an error with --protocol %s: exit code %d, %q", protocol, code, stderr)
		}
	}
	gone.Store(true)
	if _, stderr, code := clitest.Run(t, app, "mcp", "tools", "one", "--protocol", "session"); code != base.ExitFailure || strings.Contains(stderr, "rejected by") || !strings.Contains(stderr, "(JSON-RPC error -") {
		t.Errorf("a dead server: exit code %d, %s", code, stderr)
	}
}
