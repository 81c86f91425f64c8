package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAServerWithSessionsOnlyIsNamedWhenTheOtherEraIsAskedFor(t *testing.T) {
	app := livingApp(t)
	server := remoteServer(t, nil)
	url := strings.TrimSpace(must(t, app, "run", server, "--name", "one", "--proxy-mode", "sse"))
	for _, target := range []string{"one", url} {
		for _, protocol := range []string{"stateless", "2026-07-28"} {
			for _, args := range [][]string{{"tools", target}, {"info", target}, {"call", target, "echo"}} {
				stdout, stderr, code := thv(t, app, append([]string{"mcp", "--protocol", protocol}, args...)...)
				if want := "Error: " + target + " speaks protocol version 2025-11-25, not 2026-07-28\n"; code != exitFailure || stdout != "" || stderr != want {
					t.Errorf("%v with --protocol %s: exit code %d, %q, %q", args, protocol, code, stdout, stderr)
				}
			}
		}
	}
}

func TestInfoShowsInstructionsWhole(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "wordy", Version: "1"}, &sdk.ServerOptions{Instructions: "First.\n\nSecond\x1b[2J " + strings.Repeat("x", 200) + "."})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer h.Close()
	defer h.CloseClientConnections()
	want := "protocol version\t2025-11-25\nserver\twordy 1\ncapabilities\tlogging\ninstructions\tFirst. Second " + strings.Repeat("x", 200) + ".\n"
	if got := must(t, testApp(t), "mcp", "info", h.URL); got != want {
		t.Errorf("info prints %q, want %q", got, want)
	}
}

func TestATimeoutIsATimeToWait(t *testing.T) {
	for _, value := range []string{"-1s", "0"} {
		if _, stderr, code := thv(t, testApp(t), "mcp", "info", "a", "--timeout", value); code != exitUsage || !strings.Contains(stderr, "--timeout") {
			t.Errorf("--timeout %s: exit code %d, %s", value, code, stderr)
		}
	}
}
