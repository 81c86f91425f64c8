package mcpcmd_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

func TestProtocolThatTheTargetLacks(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	url := strings.TrimSpace(clitest.Must(t, app, "run", server, "--name", "one", "--proxy-mode", "sse"))
	for _, target := range []string{"one", url} {
		for _, protocol := range []string{"stateless", "2026-07-28"} {
			for _, args := range [][]string{{"tools", target}, {"info", target}, {"call", target, "echo"}} {
				stdout, stderr, code := clitest.Run(t, app, append([]string{"mcp", "--protocol", protocol}, args...)...)
				if want := "Error: " + target + " speaks protocol version 2025-11-25, not 2026-07-28\n"; code != base.ExitFailure || stdout != "" || stderr != want {
					t.Errorf("%v with --protocol %s: exit code %d, %q, %q", args, protocol, code, stdout, stderr)
				}
			}
		}
	}
}

func TestInfo_InstructionsAreNotCut(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "wordy", Version: "1"}, &sdk.ServerOptions{Instructions: "First.\n\nSecond\x1b[2J " + strings.Repeat("x", 200) + "."})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer h.Close()
	defer h.CloseClientConnections()
	want := "protocol version\t2025-11-25\nserver\twordy 1\ncapabilities\tlogging\ninstructions\tFirst. Second " + strings.Repeat("x", 200) + ".\n"
	if got := clitest.Must(t, clitest.App(t), "mcp", "info", h.URL); got != want {
		t.Errorf("info prints %q, want %q", got, want)
	}
}

func TestTimeoutMustBePositive(t *testing.T) {
	for _, value := range []string{"-1s", "0"} {
		if _, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "info", "a", "--timeout", value); code != base.ExitUsage || !strings.Contains(stderr, "--timeout") {
			t.Errorf("--timeout %s: exit code %d, %s", value, code, stderr)
		}
	}
}
