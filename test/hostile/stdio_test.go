//go:build hostile

package hostile

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// program is the hostile server, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "thv-hostile")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "server")
	build := exec.Command("go", "build", "-o", path, "./server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the hostile server: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is a [guest.Process] here.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Reader
	ended chan struct{}
	err   error
}

var running atomic.Int64 // processes

func spawn(era string) (guest.Process, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, fmt.Sprintf("-modern=%v", era == "modern")), ended: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A pipe of our own: Wait must not close what is still to be read.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.out = w, r
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_ = w.Close()
	running.Add(1)
	go func() {
		p.err = p.cmd.Wait()
		running.Add(-1)
		close(p.ended)
	}()
	return p, nil
}

func (p *process) Stdin() io.WriteCloser { return p.in }
func (p *process) Stdout() io.Reader     { return p.out }
func (p *process) Wait() error           { <-p.ended; return p.err }

func (*process) Frozen(context.Context) bool { return false }

func (p *process) Stop(context.Context) error {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.ended
	}
	return p.out.(io.Closer).Close()
}

// stdioGateway is the url of a gateway before processes of an era.
func stdioGateway(t *testing.T, era string) string {
	t.Helper()
	t.Cleanup(func() {
		if n := running.Load(); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	b := backend.NewStdio(backend.StdioConfig{Spawn: func(context.Context) (guest.Process, error) { return spawn(era) }, QueueTimeout: 5 * time.Second})
	return serve(t, gatewayOf(t, b))
}

// As [TestServersThatDoWrong], on standard input and output.
func TestStdioServersThatDoWrong(t *testing.T) {
	for _, era := range []string{"session", "modern"} {
		t.Run(era, func(t *testing.T) {
			noLeaks(t)
			url := stdioGateway(t, era)
			sufferAll(t, url, era == "modern", all(func(f Fault) string {
				switch {
				case f.Say == nil, f.Fatal && era == "modern": // all share one process
					return ""
				case f.Stdio != "":
					return f.Stdio
				case era == "modern" && f.Modern != "":
					return f.Modern
				}
				return f.Want
			}))
		})
	}
}

// A server that reads nothing more, or ends, takes nobody with it but those of its
// process.
func TestStdioServersThatStop(t *testing.T) {
	noLeaks(t)
	url := stdioGateway(t, "session")
	bystander(t, url, false)
	for _, tool := range []string{"exits", "stops reading"} {
		t.Run(tool, func(t *testing.T) {
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					c := clientOf(t, url, false)
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					defer cancel()
					if err := c.Open(ctx); err != nil {
						t.Error(err)
						return
					}
					if tool == "exits" {
						o, err := c.Call(ctx, mcp.IntID(int64(n)), tool, `{}`, "")
						if err != nil || o.Response == nil || o.Response.Error == nil {
							t.Errorf("want an error: %v, %v", o, err)
						}
						return
					}
					gone, stop := context.WithTimeout(ctx, 300*time.Millisecond)
					defer stop()
					_, _ = c.Call(gone, mcp.IntID(1), tool, `{}`, "")
					// What it does not read piles up here, and must end in errors.
					huge := fmt.Sprintf(`{"x":"%s"}`, string(make([]byte, 0))+fmt.Sprintf("%0*d", 1<<20, 0))
					refused := false
					for k := range 8 {
						gone, stop := context.WithTimeout(ctx, 200*time.Millisecond)
						o, err := c.Call(gone, mcp.IntID(int64(10+k)), "good", huge, "")
						stop()
						refused = refused || err == nil && o.Response != nil && o.Response.Error != nil
					}
					t.Log("refused:", refused)
					if err := c.Close(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// One client wants to hear of more than anybody can watch. It is told so, at
// once, and nobody else notices.
func TestASubscriptionToEverything(t *testing.T) {
	var uris strings.Builder
	for n := range 500_000 {
		fmt.Fprintf(&uris, `"x:%d",`, n)
	}
	for _, era := range []string{"session", "modern"} {
		t.Run(era, func(t *testing.T) {
			noLeaks(t)
			memory := watchMemory(t)
			url := stdioGateway(t, era)
			bystander(t, url, true)
			c := clientOf(t, url, true)
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			o, err := c.Do(ctx, mcp.IntID(1), mcp.MethodSubscriptionsListen, `{"notifications":{"resourceSubscriptions":[`+strings.TrimSuffix(uris.String(), ",")+`]}}`)
			if err != nil || o.Response == nil || o.Response.Error == nil || o.Response.Error.Code != mcp.CodeInvalidParams {
				t.Errorf("%v, %v", o, err)
			}
			memory.check(t, "a subscription to everything")
		})
	}
}
