package cli

import (
	"strings"
	"testing"
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
