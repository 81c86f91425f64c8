package pod

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/credential/aws/awstest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// patience bounds every wait of a test for something that must happen.
const patience = time.Minute

// What this program does instead of the tests when it is started with this variable.
const (
	envRole    = "THV_POD_TEST_ROLE"
	roleServer = "server" // an MCP server on standard input and output
	rolePod    = "pod"    // Main with the Config in its argument
)

// guestProgram is the built thv-guest of all tests.
var guestProgram string

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case roleServer:
		_ = counting().Run(context.Background(), &sdk.StdioTransport{})
		return
	case rolePod:
		os.Exit(beAPod())
	}
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pod")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	guestProgram = filepath.Join(dir, "thv-guest")
	build := exec.Command("go", "build", "-o", guestProgram, "github.com/toolhaven/toolhaven/cmd/thv-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the guest: %v\n%s", err, out)
		return 1
	}
	defer startSTS()()
	return m.Run()
}

// wireSTS is the token service of AWS for all tests; TestMain starts it.
var wireSTS = awstest.NewSTS()

// startSTS serves it, for the processes that this one starts.
func startSTS() (end func()) {
	server := httptest.NewServer(wireSTS)
	_ = os.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	return server.Close
}

func beAPod() int {
	var cfg Config
	if err := json.Unmarshal([]byte(os.Getenv("THV_POD_TEST_CONFIG")), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cfg.Log, cfg.AuditOut = slog.New(slog.NewJSONHandler(os.Stderr, nil)), os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Main(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// counting is an MCP server with a count for each of its processes and sessions.
func counting() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "counting", Version: "1"}, nil)
	var count atomic.Int64
	sdk.AddTool(server, &sdk.Tool{Name: "count"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return text(fmt.Sprint(count.Add(1))), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "env"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*sdk.CallToolResult, any, error) {
		return text(os.Getenv(in.Name)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "slow"}, func(ctx context.Context, r *sdk.CallToolRequest, in struct {
		File string `json:"file"`
	}) (*sdk.CallToolResult, any, error) {
		// It has begun when the file is there, and ends when the file is gone.
		if err := os.WriteFile(in.File, nil, 0o600); err != nil {
			return nil, nil, err
		}
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		for ctx.Err() == nil {
			if _, err := os.Stat(in.File); err != nil {
				return text("done"), nil, nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil, nil, ctx.Err()
	})
	return server
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// process is a pod's gateway in a process of its own.
type process struct {
	cmd   *exec.Cmd
	url   string // of the gateway
	log   *buffer
	ended chan error
}

type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func startPod(t *testing.T, spec *workload.Spec, cfg Config) *process {
	t.Helper()
	cfg.File = writeSpec(t, spec)
	if cfg.Notice == 0 {
		cfg.Notice = -1
	}
	if cfg.Listen == "" {
		cfg.Listen = freeAddress(t, "127.0.0.1")
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), url: "http://" + cfg.Listen, log: &buffer{}, ended: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), envRole+"="+rolePod, "THV_POD_TEST_CONFIG="+string(encoded))
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		select {
		case <-p.ended:
		default:
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.url, p.log)
		}
	})
	return p
}

// probe is the status of a GET, 0 without a response.
func (p *process) probe(path string) int {
	resp, err := http.Get(p.url + path)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

func (p *process) awaitReady(t *testing.T, status int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s%s responds with %d", p.url, PathReadiness, status), func() bool { return p.probe(PathReadiness) == status })
}

// startGuest starts the guest of a server's container, which ends with the returned function.
func startGuest(t *testing.T, socket string) (stop func()) {
	t.Helper()
	cmd := exec.Command(guestProgram, "serve", "--socket", socket, "--", os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+roleServer)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if !kill.Stop() {
			t.Errorf("the guest did not end within %s of SIGTERM", patience)
		}
	})
	t.Cleanup(stop)
	return stop
}

// socketPath is short, as the path of a socket must be.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "line.sock")
}

func stdioSpec() *workload.Spec {
	return &workload.Spec{
		Schema: workload.Schema, Name: "counting", Image: "counting", Source: workload.Source{Kind: "config", Ref: "test"},
		Transport: workload.Stdio, Proxy: workload.Proxy{Host: "127.0.0.1", Port: 8080, Mode: "streamable-http"},
	}
}

func remoteSpec(target string) *workload.Spec {
	s := stdioSpec()
	s.Image, s.Transport, s.Remote = "", workload.StreamableHTTP, &workload.Remote{URL: target}
	return s
}

func writeSpec(t *testing.T, spec *workload.Spec) string {
	t.Helper()
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, filepath.Join(t.TempDir(), "workload.json"), string(b))
}

func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddress(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// sessionEra is the newest protocol version with sessions.
const sessionEra = "2025-11-25"

func connect(t *testing.T, target, version string, options *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: target + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func call(ctx context.Context, s *sdk.ClientSession, tool string, arguments map[string]any) (string, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken("p")
	r, err := s.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	if r.IsError {
		return "", fmt.Errorf("%v", r.Content[0].(*sdk.TextContent).Text)
	}
	return r.Content[0].(*sdk.TextContent).Text, nil
}

func mustCall(t *testing.T, s *sdk.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	got, err := call(t.Context(), s, tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return got
}

// The containers of a pod start in any order and are restarted one by one.
func TestMain_StdioServerComesAndGoes(t *testing.T) {
	t.Parallel()
	socket := socketPath(t)
	p := startPod(t, stdioSpec(), Config{GuestSocket: socket})
	eventually(t, "it lives", func() bool { return p.probe("/health") == http.StatusOK })
	if got := p.probe(PathReadiness); got != http.StatusServiceUnavailable {
		t.Errorf("readiness without a server is %d", got)
	}
	stop := startGuest(t, socket)
	p.awaitReady(t, http.StatusOK)
	session := connect(t, p.url, sessionEra, nil)
	for _, want := range []string{"1", "2"} {
		if got := mustCall(t, session, "count", nil); got != want {
			t.Errorf("count is %s, want %s", got, want)
		}
	}
	stop()
	p.awaitReady(t, http.StatusServiceUnavailable)
	if got := p.probe("/health"); got != http.StatusOK {
		t.Errorf("the gateway's health is %d when its server is gone", got)
	}
	startGuest(t, socket)
	p.awaitReady(t, http.StatusOK)
	if got := mustCall(t, connect(t, p.url, sessionEra, nil), "count", nil); got != "1" {
		t.Errorf("the first count of a new server is %s", got)
	}
}

func TestMain_DrainsCalls(t *testing.T) {
	t.Parallel()
	socket := socketPath(t)
	startGuest(t, socket)
	p := startPod(t, stdioSpec(), Config{GuestSocket: socket, Notice: 300 * time.Millisecond})
	p.awaitReady(t, http.StatusOK)
	session := connect(t, p.url, sessionEra, nil)
	file := filepath.Join(t.TempDir(), "call")
	type outcome struct {
		text string
		err  error
	}
	called := make(chan outcome, 1)
	go func() {
		got, err := call(t.Context(), session, "slow", map[string]any{"file": file})
		called <- outcome{got, err}
	}()
	eventually(t, "the call has begun", func() bool { _, err := os.Stat(file); return err == nil })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.awaitReady(t, http.StatusServiceUnavailable)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := <-called; got.err != nil || got.text != "done" {
		t.Errorf("a call in flight at SIGTERM: %q, %v", got.text, got.err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
