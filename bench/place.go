package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bench is where one run of it happens: a state directory of its own, and the
// server that everything is measured with.
type bench struct {
	thvPath string
	dir     string
	probe   string // test/servers/probe, built
	scale   int    // divides numbers of repetitions
}

func newBench(thvPath string, quick bool) (*bench, error) {
	thvPath, err := filepath.Abs(thvPath)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(thvPath); err != nil {
		return nil, fmt.Errorf("%w; build it with `make build`", err)
	}
	dir, err := os.MkdirTemp("", "thvb")
	if err != nil {
		return nil, err
	}
	b := &bench{thvPath: thvPath, dir: dir, scale: 1}
	if quick {
		b.scale = 10
	}
	if b.probe, err = b.build("probe"); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// build compiles one of test/servers, and returns the program's path.
func (b *bench) build(server string) (string, error) {
	program := filepath.Join(b.dir, server)
	build := exec.Command("go", "build", "-o", program, "./test/servers/"+server)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the server to measure with (run bench in the repository): %w", err)
	}
	return program, nil
}

// times is n repetitions, or fewer in a quick run.
func (b *bench) times(n int) int { return max(1, n/b.scale) }

func (b *bench) close() {
	if out, err := b.command(context.Background(), "rm", "--all").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: thv rm --all: %v\n%s", err, out)
	}
	os.RemoveAll(b.dir)
}

func (b *bench) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.thvPath, args...)
	cmd.Env = append(os.Environ(),
		"XDG_STATE_HOME="+filepath.Join(b.dir, "s"), "XDG_RUNTIME_DIR="+filepath.Join(b.dir, "r"),
		"XDG_CONFIG_HOME="+filepath.Join(b.dir, "c"), "NO_COLOR=1")
	return cmd
}

// thv runs a command and returns its last line of output.
func (b *bench) thv(ctx context.Context, args ...string) (string, error) {
	out, err := b.command(ctx, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("thv %s: %w", strings.Join(args, " "), err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}

// gatewayPID is the process that serves a workload.
func (b *bench) gatewayPID(ctx context.Context, name string) (int, error) {
	out, err := b.command(ctx, "status", name, "-o", "json").Output()
	if err != nil {
		return 0, fmt.Errorf("thv status %s: %w", name, err)
	}
	var st struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(out, &st); err != nil {
		return 0, fmt.Errorf("thv status %s: %w", name, err)
	}
	if st.PID == 0 {
		return 0, fmt.Errorf("thv status %s names no process", name)
	}
	return st.PID, nil
}

// resident is a process's resident memory in MiB.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return float64(kib) / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no resident memory", pid)
}

// daemon starts a program that prints its address first, and returns that.
func daemon(ctx context.Context, path string, args ...string) (addr string, end func(), err error) {
	cmd := exec.CommandContext(ctx, path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return "", nil, fmt.Errorf("%s did not start: %w", path, err)
	}
	return strings.TrimSpace(addr), end, nil
}

// reverseProxy is the baseline of a gateway, in a process of its own as a
// gateway is.
func reverseProxy(target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
