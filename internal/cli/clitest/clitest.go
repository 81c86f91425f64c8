// Package clitest runs the command line thv in tests: in this process with streams
// and directories of its own, or as a process.
package clitest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
)

// Run executes a command line with the app's directories and returns what it wrote and
// its exit code.
func Run(t *testing.T, a *base.App, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	a.Out, a.Err, a.In, a.JSON = &out, &errOut, strings.NewReader(""), false
	root := cli.Root(a)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	var reported *base.Reported
	if err != nil && !errors.As(err, &reported) {
		errOut.WriteString(base.Sentence(err) + "\n")
	}
	return out.String(), errOut.String(), base.ExitCode(err)
}

// App returns an App with directories of its own and no container engine.
func App(t *testing.T) *base.App {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir + "/state", "XDG_CONFIG_HOME": dir + "/config", "XDG_RUNTIME_DIR": dir + "/run",
		"THV_ENGINE": "unix://" + dir + "/none.sock",
	}
	return &base.App{Env: func(k string) string { return env[k] }}
}

// LongEnough bounds every wait of a test for something that must happen.
const LongEnough = time.Minute

// AsProgram makes the test binary, started again, the program thv.
const AsProgram = "THV_TEST_AS_PROGRAM"

// Main is for TestMain: it runs the tests, or the program thv when the test binary
// was started as `thv owner NAME` or by Start.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "owner" || os.Getenv(AsProgram) != "" {
		os.Exit(cli.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// LivingApp returns an App whose workloads run, each with an owner process. It has no
// container engine. Its workloads are removed when the test ends.
func LivingApp(t *testing.T) *base.App {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv") // short: sockets live in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, value := range map[string]string{
		"HOME": dir, "XDG_STATE_HOME": filepath.Join(dir, "s"), "XDG_CONFIG_HOME": filepath.Join(dir, "c"), "XDG_RUNTIME_DIR": filepath.Join(dir, "r"),
		"THV_ENGINE": "unix://" + filepath.Join(dir, "none.sock"), base.EnvStartTimeout: "60s",
	} {
		t.Setenv(name, value)
	}
	a := &base.App{Env: os.Getenv}
	// Ports derived from the names would be the same in the packages that go test runs
	// side by side.
	dirs, err := a.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	ports := fmt.Sprintf(`{"one": %d, "two": %d, "three": %d}`, freePort(t), freePort(t), freePort(t))
	if err := os.MkdirAll(dirs.State, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dirs.State, "ports.json"), []byte(ports), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m, err := a.Manager()
		if err != nil {
			t.Error(err)
			return
		}
		all, err := m.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, st := range all {
			if err := m.Remove(context.Background(), st.Name, nil); err != nil {
				t.Errorf("rm %s: %v", st.Name, err)
			}
		}
	})
	return a
}

// freePort returns a port outside of the range from which the system gives them.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(10_000)
		var lc net.ListenConfig
		if l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// RemoteServer starts an MCP server with the tools echo and fail, a resource and a prompt,
// and returns its URL. seen, which may be nil, is called with every request.
func RemoteServer(t *testing.T, seen func(*http.Request)) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
		N    int    `json:"n,omitempty"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "Says it again.\nMore."}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat(in.Text, max(in.N, 1))}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no \x1b[31mway"}}}, nil, nil
	})
	server.AddResource(&sdk.Resource{URI: "test://a", Name: "a", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://a", Text: "content of a"}}}, nil
	})
	server.AddPrompt(&sdk.Prompt{Name: "ask", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{}, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		handler.ServeHTTP(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections() // gateways hold streams open
		s.Close()
	})
	return s.URL + "/mcp"
}

// Must is Run for a command line that must succeed. It returns the standard output.
func Must(t *testing.T, a *base.App, args ...string) string {
	t.Helper()
	stdout, stderr, code := Run(t, a, args...)
	if code != base.ExitOK {
		t.Fatalf("thv %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// Process is thv in a process of its own.
type Process struct {
	Cmd   *exec.Cmd
	Lines chan string // of standard error
}

// Start starts thv in a process of its own, with the environment of the test.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), AsProgram+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{Cmd: cmd, Lines: make(chan string, 100)}
	go func() {
		defer close(p.Lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.Lines <- s.Text()
		}
	}()
	return p
}

// Says waits for the next line on standard error, which must contain part.
func (p *Process) Says(t *testing.T, part string) {
	t.Helper()
	select {
	case line := <-p.Lines:
		if !strings.Contains(line, part) {
			t.Errorf("the next line is %q, want %q", line, part)
		}
	case <-time.After(LongEnough):
		t.Fatalf("no line on standard error; want %q", part)
	}
}

// Ends waits for the process to exit with code; it must write nothing more until then.
func (p *Process) Ends(t *testing.T, code int) {
	t.Helper()
	for line := range p.Lines {
		t.Errorf("a line more: %q", line)
	}
	_ = p.Cmd.Wait() // the code is checked below
	if got := p.Cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
}

// Interrupt sends the signal of Ctrl-C.
func (p *Process) Interrupt(t *testing.T) {
	t.Helper()
	if err := p.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}
