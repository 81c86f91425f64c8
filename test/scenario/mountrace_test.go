//go:build integration

package scenario

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A running server replaces a directory between the check of the mounts and the mount, which is
// here when the engine is about to start the container. The server is not started.
func TestMountRace(t *testing.T) {
	for name, swap := range map[string]func(sub, secrets string) error{
		"a link": func(sub, secrets string) error { return os.Symlink(secrets, sub) },
		"another directory": func(sub, _ string) error {
			return os.Mkdir(sub, 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := goTestPlace(t)
			dir := t.TempDir()
			work, sub, secrets := filepath.Join(dir, "work"), filepath.Join(dir, "work", "sub"), filepath.Join(dir, "secrets")
			for _, d := range []string{sub, secrets} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			run := func(engine string, options ...string) (string, error) {
				cmd := exec.CommandContext(t.Context(), thvPath(), append([]string{"run", "go://../servers/probe", "--name", "raced", "-v", work + ":/work:ro", "-v", sub + ":/sub"}, options...)...)
				cmd.Env = append(os.Environ(), append(p.vars(), "THV_ENGINE=unix://"+engine)...)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			var once sync.Once
			engine := beforeStart(t, func() {
				once.Do(func() {
					err := os.Rename(sub, sub+".old")
					if err == nil {
						err = swap(sub, secrets)
					}
					if err != nil {
						t.Error(err)
					}
				})
			})
			// The server of --permission-profile none needs no set-up of its network.
			for _, options := range [][]string{nil, {"--permission-profile", "none"}} {
				once = sync.Once{}
				if err := os.RemoveAll(sub); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(sub + ".old"); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(sub, 0o755); err != nil {
					t.Fatal(err)
				}
				// The server itself may write to work, at /again.
				out, err := run(engine, append(options, "-v", work+":/again")...)
				if err == nil || !strings.Contains(out, "what is mounted at /sub is not what was checked") {
					t.Errorf("%v: %v\n%s", options, err, out)
				}
				if ids, err := p.containers(); err != nil || len(ids) > 0 {
					t.Errorf("containers %v, %v", ids, err)
				}
			}
		})
	}
}

// beforeStart serves the machine's engine at a socket of its own and calls swap before the
// engine starts a container.
func beforeStart(t *testing.T, swap func()) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv")
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "e.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		l.Close()
		cancel()
		serving.Wait()
		os.RemoveAll(dir)
	})
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { pass(ctx, client, swap) })
		}
	})
	return socket
}

// pass copies a connection to the engine, request by request until one takes it over.
func pass(ctx context.Context, client net.Conn, swap func()) {
	defer client.Close()
	engine, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "unix", "/var/run/docker.sock")
	if err != nil {
		return
	}
	defer engine.Close()
	defer context.AfterFunc(ctx, func() { client.Close(); engine.Close() })()
	go func() {
		_, _ = io.Copy(client, engine)
		client.Close()
	}()
	from := bufio.NewReader(client)
	for {
		req, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		if strings.HasSuffix(req.URL.Path, "/start") {
			swap()
		}
		upgrade := req.Header.Get("Upgrade") != ""
		if err := req.Write(engine); err != nil {
			return
		}
		if upgrade {
			_, _ = io.Copy(engine, from)
			if half, ok := engine.(*net.UnixConn); ok {
				_ = half.CloseWrite()
			}
			<-ctx.Done()
			return
		}
	}
}
