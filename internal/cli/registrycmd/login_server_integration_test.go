//go:build integration

package registrycmd_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
)

// Both programs as they are: the registry server is signed in to, at an identity
// provider that no one here wrote, for a resource that is its origin.
func TestLogin_RegistryServer(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "thv-registry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../../cmd/thv-registry")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	origin := "http://" + address
	provider := idp.Start(t, idp.Options{})
	config := file("registry.yaml", fmt.Sprintf(`auth:
  oauth:
    resourceUrl: %s
    providers:
      - name: idp
        issuerUrl: %s
        audience: %s
        allowPrivateIP: true
database:
  sqlite:
    path: %s
`, origin, provider.Issuer, origin, filepath.Join(dir, "registry.db")))
	servers := file("servers.json", `{"servers": [{"server": {"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name": "io.example/remote", "description": "It does.", "version": "1.0.0", "remotes": [{"type": "streamable-http", "url": "`+clitest.RemoteServer(t, nil)+`"}]}}]}`)
	if out, err := exec.CommandContext(t.Context(), program, "import", servers, "--config", config).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var log bytes.Buffer
	serve := exec.Command(program, "serve", "--config", config, "--address", address, "--internal-address", "127.0.0.1:0")
	serve.Stdout, serve.Stderr = &log, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		serve.Process.Kill()
		serve.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	location := origin + "/registry/default"
	for deadline := time.Now().Add(clitest.LongEnough); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(location + "/v0.1/servers")
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	s := newSession(t, location)
	if _, stderr := s.run(base.ExitFailure, "registry", "list"); !strings.Contains(stderr, "run `thv registry login`") {
		t.Error(stderr)
	}
	where, stdin, finish := s.login(nil, "--skip-browser")
	io.WriteString(stdin, s.visit(where, false)+"\n")
	if _, stderr := finish(base.ExitOK); !strings.Contains(stderr, "signed in to "+origin+" at "+provider.Issuer) {
		t.Error(stderr)
	}
	for _, args := range [][]string{{"registry", "list"}, {"registry", "search", "remote"}, {"registry", "info", "remote"}, {"registry", "info", "io.example/remote@1.0.0"}} {
		if stdout, _ := s.run(base.ExitOK, args...); !strings.Contains(stdout, "io.example/remote") {
			t.Errorf("%v: %s", args, stdout)
		}
	}
	if stdout, stderr := s.run(base.ExitOK, "run", "io.example/remote"); !strings.Contains(stdout, "http://") {
		t.Errorf("%s%s", stdout, stderr)
	}
	s.run(base.ExitOK, "registry", "logout")
	s.run(base.ExitFailure, "registry", "list")
	// For a machine: a token of its own.
	token := provider.Token(t, origin, "mcp-registry:read")
	s.secrets[token] = true
	t.Setenv(base.EnvRegistryToken, token)
	s.run(base.ExitOK, "registry", "list")
}
