package backend

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/test/local"
)

// serveHTTP is the main function of a process that serves the fixture on each HTTP
// transport. It prints its address, and the name of each tool whose call waits.
func serveHTTP() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	fix := newFixture()
	go func() {
		for name := range fix.started {
			fmt.Println(name)
		}
	}()
	mux := http.NewServeMux()
	mux.Handle("/mcp", streamableHandler(nil)(fix.server))
	mux.Handle("/stateless", streamableHandler(&sdk.StreamableHTTPOptions{Stateless: true})(fix.server))
	mux.Handle("/sse", sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return fix.server }, nil))
	return http.Serve(l, mux) //nolint:gosec // a test's server
}

// httpProcess starts a process that runs serveHTTP, and returns its output after the
// address.
func httpProcess(t *testing.T) (pid int, url string, out *bufio.Scanner) {
	t.Helper()
	argv := role(t, "http")
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	out = bufio.NewScanner(pipe)
	if !out.Scan() {
		t.Fatal("the server printed no address")
	}
	return cmd.Process.Pid, "http://" + out.Text(), out
}

// With an HTTP server whose process is stopped, pending and new requests fail once the
// liveness check has failed, and requests succeed again in the same session once the
// process continues.
func TestUnresponsive(t *testing.T) {
	t.Parallel()
	session := func(t *testing.T, b exchange.Backend) func(context.Context, string) (*mcp.Message, error) {
		conn := open(t, b, backendtest.NewPeer())
		return func(ctx context.Context, tool string) (*mcp.Message, error) {
			return conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), tool, `{}`), nil))
		}
	}
	stateless := func(_ *testing.T, b exchange.Backend) func(context.Context, string) (*mcp.Message, error) {
		return func(ctx context.Context, tool string) (*mcp.Message, error) {
			return b.Do(ctx, statelessRequest(mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{}`, `{}`, nil))
		}
	}
	for name, row := range map[string]struct {
		path    string
		backend func(url string) exchange.Backend
		client  func(*testing.T, exchange.Backend) func(context.Context, string) (*mcp.Message, error)
	}{
		"streamable, session client":   {"/mcp", streamableBackend, session},
		"streamable, stateless client": {"/mcp", streamableBackend, stateless},
		"stateless, session client":    {"/stateless", streamableBackend, session},
		"stateless, stateless client":  {"/stateless", streamableBackend, stateless},
		"sse, session client":          {"/sse", sseBackend, session},
		"sse, stateless client":        {"/sse", sseBackend, stateless},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid, url, out := httpProcess(t)
			b := closeAfter(t, row.backend(url+row.path))
			ctx := backendtest.TestContext(t)
			call := row.client(t, b)
			watch := open(t, b, nil)
			ping := func(limit time.Duration) error {
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				_, err := watch.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodPing, `{}`), nil))
				return err
			}
			if m, err := call(ctx, "echo"); err != nil || m.Error != nil {
				t.Fatalf("before: %s", backendtest.Text(m, err))
			}
			pending := make(chan error, 1)
			go func() {
				_, err := call(ctx, "wait")
				pending <- err
			}()
			if !out.Scan() {
				t.Fatal("the call did not reach the server")
			}
			local.Freeze(t, pid)
			if err := ping(time.Second); err == nil && !strings.HasPrefix(row.path, "/stateless") {
				t.Error("a stopped process answered a ping")
			}
			reason := &mcp.Error{Code: mcp.CodeServerGone, Message: "the server does not respond"}
			b.Unresponsive(reason)
			select {
			case err := <-pending:
				if err == nil || !strings.Contains(err.Error(), reason.Message) {
					t.Errorf("the pending call ended with %v", err)
				}
			case <-time.After(backendtest.Patience):
				t.Error("the pending call did not end")
			}
			if m, err := call(ctx, "echo"); err == nil || !strings.Contains(err.Error(), reason.Message) {
				t.Errorf("a new call: %s", backendtest.Text(m, err))
			}
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if err := ping(backendtest.Patience); err != nil {
				t.Errorf("a ping after the process continued: %v", err)
			}
			b.Unresponsive(nil)
			if m, err := call(ctx, "echo"); err != nil || m.Error != nil {
				t.Errorf("a call after the process continued: %s", backendtest.Text(m, err))
			}
		})
	}
}
