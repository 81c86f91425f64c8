//go:build integration

package scenario

import (
	"bufio"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// serverCommands start servers that a script talks to; they end with it.
func serverCommands() map[string]command {
	return map[string]command{
		"remote":   remote,
		"registry": registryAPI,
		"oci":      imageRegistry,
		"node":     node,
		"python":   python,
		"idp":      identityProvider,
		"dex":      dexProvider,
		"stepup":   stepUp,
		"redis":    redisServer,
		"aws":      awsService,
		"assumed":  assumed,
		"token":    accessToken,
		"signin":   signIn,
		"browse":   browse,
		"gosdk":    goSDK,
		"header":   responseHeader,
		"secret":   secretValues,
		"nowhere":  nowhere,
		"webhook":  webhookServer,
		"otlp":     otlpCollector,
		"received": received,
	}
}

var probeOnce = sync.OnceValues(func() (string, error) {
	path := filepath.Join(repo(), "test", ".cache", "probe")
	cmd := exec.Command("go", "build", "-o", path, "./test/servers/probe")
	cmd.Dir = repo()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as all of `make`: dependencies are compiled once
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

// startProbe runs test/servers/probe on the host and returns its address.
func startProbe(flag string) (addr string, end func(), err error) {
	path, err := probeOnce()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(path, flag, "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return "", nil, err
	}
	return strings.TrimSpace(addr), end, nil
}

// remote NAME http|json|sse starts a server on the host, as one that runs
// elsewhere, and sets NAME to its address, host:port.
func remote(ts *testscript.TestScript, _ bool, args []string) {
	addr, end, err := startProbe("-" + args[1])
	ts.Check(err)
	ts.Defer(end)
	ts.Setenv(args[0], addr)
}

// registry NAME DIR serves a directory as a registry that speaks the official
// API v0.1: list.json is the list, NAME.json one server's latest version. It
// sets NAME to its base URL. A file "delay" makes it slow, "broken" malformed.
func registryAPI(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[1])
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, "delay")); err == nil {
			select { // longer than any client should wait
			case <-time.After(2 * time.Minute):
			case <-r.Context().Done():
			case <-done:
			}
			return
		}
		if b, err := os.ReadFile(filepath.Join(dir, "broken")); err == nil {
			w.Write(b)
			return
		}
		file := registryFile(r)
		b, err := os.ReadFile(filepath.Join(dir, file))
		w.Header().Set("Content-Type", "application/json")
		if file == "" || err != nil {
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"title":"Not Found","status":404,"detail":"Server not found"}`))
			return
		}
		w.Write(b)
	}))
	ts.Defer(func() { close(done); server.Close() })
	ts.Setenv(args[0], server.URL)
}

// oci NAME starts a registry of images and sets NAME to its address, host:port. Engines
// trust a loopback address without settings.
func imageRegistry(ts *testscript.TestScript, _ bool, args []string) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(server.Close)
	ts.Setenv(args[0], strings.TrimPrefix(server.URL, "http://"))
}

// registryFile returns the file with the response to a request of the API, "" for none.
func registryFile(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v0.1/servers")
	switch {
	case !ok || r.Method != http.MethodGet:
		return ""
	case rest == "" || rest == "/":
		return "list.json"
	}
	name, version, ok := strings.Cut(strings.TrimPrefix(rest, "/"), "/versions/")
	if !ok || version != "latest" || strings.Contains(name, "..") {
		return ""
	}
	return strings.ReplaceAll(name, "/", "_") + ".json"
}

// node ARGS... runs the Node.js of the tests' third-party clients. "inspector"
// as first argument is the inspector's command line, in CLI mode.
func node(ts *testscript.TestScript, neg bool, args []string) {
	if args[0] == "inspector" {
		args = append([]string{filepath.Join(clientsDir(), "node_modules", ".bin", "mcp-inspector"), "--cli"}, args[1:]...)
	}
	args = append([]string{"120", filepath.Join(clientsDir(), "node")}, args...)
	if err := ts.Exec("timeout", args...); (err == nil) == neg {
		ts.Fatalf("node: %v", err)
	}
}

// python ARGS... runs the Python with version 1 of the Python SDK.
func python(ts *testscript.TestScript, neg bool, args []string) {
	program := filepath.Join(repo(), "test", ".cache", "python-clients", "1", "bin", "python")
	if err := ts.Exec("timeout", append([]string{"120", program}, args...)...); (err == nil) == neg {
		ts.Fatalf("python: %v", err)
	}
}

// startThv runs thv in a place and returns what it printed.
func (p *place) thv(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), thvPath(), args...)
	cmd.Env = append(os.Environ(), p.vars()...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("thv %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}
