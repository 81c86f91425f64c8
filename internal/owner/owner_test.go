package owner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
	"github.com/toolhaven/toolhaven/test/local"
)

// remoteServer is an MCP server that can be made to fail, over real HTTP.
type remoteServer struct {
	*httptest.Server
	broken atomic.Bool
}

func newRemoteServer(t *testing.T) *remoteServer {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "3"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "greet"}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	r := &remoteServer{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.broken.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		handler.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// waitTime bounds every wait of a test for something that must happen.
const waitTime = time.Minute

func freePort(t *testing.T) int {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func remoteSpec(url string, port int) *workload.Spec {
	return &workload.Spec{
		Schema: workload.Schema, Name: "r", Group: manager.DefaultGroup,
		Source: workload.Source{Kind: "remote", Ref: url}, Remote: &workload.Remote{URL: url},
		Transport: workload.StreamableHTTP,
		Proxy:     workload.Proxy{Host: "127.0.0.1", Port: port, Mode: "streamable-http"},
	}
}

// running is a Main in the background.
type running struct {
	store *manager.Store
	spec  *workload.Spec
	ready chan struct{}
	ended chan error
}

func start(t *testing.T, url string, change func(*Config, *workload.Spec)) *running {
	t.Helper()
	store := manager.OpenStore(t.TempDir(), t.TempDir())
	spec := remoteSpec(url, freePort(t))
	r := &running{store: store, spec: spec, ready: make(chan struct{}), ended: make(chan error, 1)}
	cfg := Config{Name: "r", Store: store, StartTimeout: time.Minute, PingEvery: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	var once sync.Once
	cfg.Notices = func(n manager.Notice) {
		if n.Ready {
			once.Do(func() { close(r.ready) })
		}
	}
	if change != nil {
		change(&cfg, spec)
	}
	if err := store.Create(spec); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.ended <- Main(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-r.ended:
		case <-time.After(waitTime):
			t.Error("the owner did not end")
		}
	})
	return r
}

func (r *running) waitReady(t *testing.T) {
	t.Helper()
	select {
	case <-r.ready:
	case err := <-r.ended:
		r.ended <- err
		t.Fatalf("ended before it was ready: %v", err)
	case <-time.After(waitTime):
		t.Fatal("never ready")
	}
}

func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(waitTime):
		t.Fatal("the owner did not end")
		return nil
	}
}

// greet calls the tool as a third-party client would.
func (r *running) greet(t *testing.T) (string, error) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.spec.URL()}, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "greet", Arguments: map[string]any{"name": "jo"}})
	if err != nil {
		return "", err
	}
	return res.Content[0].(*sdk.TextContent).Text, nil
}

func (r *running) status(t *testing.T) *workload.Status {
	t.Helper()
	o, err := r.store.Owner("r")
	if err != nil || o == nil {
		t.Fatalf("no owner: %v", err)
	}
	st, err := o.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestARemoteServerIsServedAndStopped(t *testing.T) {
	r := start(t, newRemoteServer(t).URL, nil)
	r.waitReady(t)
	if got, err := r.greet(t); err != nil || got != "hello jo" {
		t.Fatalf("greet: %q, %v", got, err)
	}
	st := r.status(t)
	if st.State != workload.Running || st.Server != "remote 3" || st.Started == nil {
		t.Errorf("status: %+v", st)
	}
	o, _ := r.store.Owner("r")
	if err := o.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.end(t); err != nil {
		t.Errorf("a stop that was asked for ended with %v", err)
	}
	if last := r.store.Last("r"); last.State != workload.Stopped {
		t.Errorf("noted as %+v", last)
	}
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.spec.Proxy.Port)); err == nil {
		t.Error("the port is still served")
	}
}

func TestAStopWhileItStartsIsNoFailure(t *testing.T) {
	asked := make(chan struct{}, 16)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	notices := make(chan manager.Notice, 16)
	r := start(t, silent.URL, func(c *Config, _ *workload.Spec) {
		c.Notices = func(n manager.Notice) { notices <- n }
	})
	select {
	case <-asked:
	case <-time.After(waitTime):
		t.Fatal("the server was never asked")
	}
	o, err := r.store.Owner("r")
	if err != nil || o == nil {
		t.Fatalf("no owner: %v", err)
	}
	if err := o.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.end(t); err != nil {
		t.Errorf("ended with %v", err)
	}
	var last manager.Notice
	for len(notices) > 0 {
		last = <-notices
	}
	if last != (manager.Notice{Stopped: true}) {
		t.Errorf("the last notice is %+v", last)
	}
	if last := r.store.Last("r"); last.State != workload.Stopped || last.Reason != "" {
		t.Errorf("noted as %+v", last)
	}
}

func TestAnUnreachableRemoteServerFailsTheStart(t *testing.T) {
	r := start(t, fmt.Sprintf("http://127.0.0.1:%d/mcp", freePort(t)), nil)
	err := r.end(t)
	if err == nil || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("got %v", err)
	}
	if last := r.store.Last("r"); last.State != workload.Failed || last.Reason == "" {
		t.Errorf("noted as %+v", last)
	}
}

func TestATakenPortNamesItsHolder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	r := start(t, newRemoteServer(t).URL, func(_ *Config, s *workload.Spec) { s.Proxy.Port = port })
	err = r.end(t)
	want := fmt.Sprintf("port %d is in use by", port)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "owner.test") && runtime.GOOS == "linux" {
		t.Errorf("got %v", err)
	}
}

func TestALostRemoteServerDegradesAndRecoversWithoutARestart(t *testing.T) {
	remote := newRemoteServer(t)
	r := start(t, remote.URL, nil)
	r.waitReady(t)
	remote.broken.Store(true)
	remote.CloseClientConnections() // the standing connection is what notices
	waitFor(t, "degraded", func() bool { return r.status(t).State == workload.Degraded })
	if got, err := r.greet(t); err == nil {
		t.Errorf("a broken server greeted with %q", got)
	}
	remote.broken.Store(false)
	waitFor(t, "running", func() bool { return r.status(t).State == workload.Running })
	if got, err := r.greet(t); err != nil || got != "hello jo" {
		t.Errorf("greet after recovery: %q, %v", got, err)
	}
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitTime)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestAStarterThatGoesAwayStopsTheStart(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	starter, gone := io.Pipe()
	r := start(t, silent.URL, func(c *Config, _ *workload.Spec) { c.Starter = starter })
	gone.Close()
	if err := r.end(t); !errors.Is(err, errStarterGone) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	r := start(t, silent.URL, func(c *Config, _ *workload.Spec) { c.StartTimeout = 300 * time.Millisecond })
	if err := r.end(t); err == nil || !strings.Contains(err.Error(), "did not answer within 300ms") {
		t.Errorf("got %v", err)
	}
}

func TestTwoOwnersNeverHoldOneWorkload(t *testing.T) {
	r := start(t, newRemoteServer(t).URL, nil)
	r.waitReady(t)
	err := Main(t.Context(), Config{Name: "r", Store: r.store, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, manager.ErrAlreadyRunning) {
		t.Errorf("got %v", err)
	}
	if r.status(t).State != workload.Running {
		t.Error("the first owner was disturbed")
	}
}

func TestTheTailKeepsTheLastLinesWithoutControlCharacters(t *testing.T) {
	var w tail
	for i := range 1000 {
		fmt.Fprintf(&w, "line %d \x1b[31mred\x1b]0;t\x07\x1b[\x01\n", i)
	}
	if got, want := w.lines(2), "\n  line 998 red[\n  line 999 red["; got != want {
		t.Errorf("got %q", got)
	}
}

func TestALogIsPutAsideWhenItGrows(t *testing.T) {
	path := t.TempDir() + "/log"
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	chunk := make([]byte, 1<<20)
	for range 25 {
		if n, err := l.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	var total int64
	for _, p := range []string{path, path + ".1"} {
		total += fileSize(t, p)
	}
	if total > 2*maxLog {
		t.Errorf("the log takes %d bytes", total)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// An owner whose lock another process has taken ends, and serves nothing any more.
func TestAnOwnerThatLostItsWorkloadEnds(t *testing.T) {
	r := start(t, newRemoteServer(t).URL, nil)
	r.waitReady(t)
	before := r.store.Last("r")
	lock := filepath.Join(filepath.Dir(filepath.Dir(r.store.Dir("r"))), "run", "r.lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	other := flock.New(lock)
	if ok, err := other.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer other.Unlock()
	if err := r.end(t); !errors.Is(err, manager.ErrLost) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.spec.Proxy.Port)); err == nil {
		t.Error("the port is still served")
	}
	if last := r.store.Last("r"); last != before {
		t.Errorf("it wrote %+v over the note of the other owner", last)
	}
}
