package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/test/local"
)

const (
	goImage   = "thv-test/everything-server:latest" // go-sdk's server and nothing else
	nodeImage = "thv-test/node:22"                  // of test/images/node.sh
)

// harness holds the paths of the programs and results.
type harness struct {
	thv, cache, node, results string
}

func newHarness(thv, cache string) (*harness, error) {
	thv, err := filepath.Abs(thv)
	if err != nil {
		return nil, err
	}
	cache, err = filepath.Abs(cache)
	if err != nil {
		return nil, err
	}
	h := &harness{thv: thv, cache: cache, node: filepath.Join(cache, "node"), results: filepath.Join(cache, "results")}
	for _, path := range []string{h.thv, h.node, filepath.Join(h.cache, "everything-server"), h.client()} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w; `make conformance` prepares everything", err)
		}
	}
	return h, nil
}

// client returns the path of go-sdk's client for the suite.
func (h *harness) client() string { return filepath.Join(h.cache, "everything-client") }

// start starts a cell's servers and returns the URL for the suite. end stops them. Their
// standard error is kept in dir.
func (h *harness) start(ctx context.Context, c cell, dir string) (url string, end func(), err error) {
	var ends []func()
	all := func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}
	defer func() {
		if err != nil {
			all()
		}
	}()
	what := c.backend.image
	if what == "" {
		direct, stop, err := h.startServer(ctx, c.backend, filepath.Join(dir, "server.log"))
		if err != nil {
			return "", nil, err
		}
		ends = append(ends, stop)
		if !c.gateway {
			return direct, all, nil
		}
		what = direct
	}
	if c.stages {
		files, err := filepath.Abs(dir)
		if err != nil {
			return "", nil, err
		}
		flags, stop, err := stages(files)
		if err != nil {
			return "", nil, err
		}
		ends = append(ends, stop)
		c.backend.run = slices.Concat(flags, c.backend.run)
	}
	g, err := h.startGateway(ctx, what, c.backend, filepath.Join(dir, "gateway.log"))
	if err != nil {
		return "", nil, err
	}
	ends = append(ends, g.stop)
	return g.url, all, nil
}

// startServer starts a server on the host and waits until it listens.
func (h *harness) startServer(ctx context.Context, b backend, log string) (url string, stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	stderr, err := os.Create(log)
	if err != nil {
		return "", nil, err
	}
	defer stderr.Close()
	argv := h.fill(b.argv, port)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), h.fill(b.env, port)...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	stop = func() { cmd.Process.Kill(); <-ended }
	// By its name: the scenario about DNS rebinding recognizes a local server by it.
	if err := listens(ctx, net.JoinHostPort("localhost", port), ended); err != nil {
		stop()
		return "", nil, fmt.Errorf("%w; see %s", err, log)
	}
	return "http://localhost:" + port + b.path, stop, nil
}

// fill replaces the placeholders of cells.go.
func (h *harness) fill(in []string, port string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.NewReplacer("%NODE", h.node, "%CACHE", h.cache, "%PORT", port).Replace(s)
	}
	return out
}

func freePort() (string, error) {
	port, err := local.FreePort()
	return strconv.Itoa(port), err
}

func listens(ctx context.Context, addr string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return errors.New("the server ended before it listened")
		case <-ctx.Done():
			return fmt.Errorf("the server does not listen at %s: %w", addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// gateway is the one of a workload that `thv run` started.
type gateway struct {
	url  string
	stop func() // removes the workload

	thv, workload string
	env           []string
}

// startGateway starts `thv run` with a server, in a state directory of its own.
func (h *harness) startGateway(ctx context.Context, server string, b backend, log string) (*gateway, error) {
	dir, err := os.MkdirTemp("", "thv") // short: sockets live in it
	if err != nil {
		return nil, fmt.Errorf("make a place for thv: %w", err)
	}
	// Not the port of the name, which another run on this machine may have.
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	workload := "conformance-" + port // another cell may run at the same time
	env := os.Environ()
	for _, name := range []string{"STATE_HOME", "RUNTIME_DIR", "CONFIG_HOME"} {
		d := filepath.Join(dir, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
		env = append(env, "XDG_"+name+"="+d)
	}
	stop := func() {
		// Not of ctx: an interrupted run removes its workload too.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		logs := exec.CommandContext(bounded, h.thv, "logs", workload, "--proxy")
		logs.Env = env
		out, _ := logs.CombinedOutput() // the log of a gateway that has exited is lost
		os.WriteFile(log, out, 0o644)
		rm := exec.CommandContext(bounded, h.thv, "rm", "--all")
		rm.Env = env
		if out, err := rm.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "conformance: thv rm --all: %v: %s\n", err, out)
			return // dir is kept for inspection
		}
		os.RemoveAll(dir)
	}
	bounded, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	args := slices.Concat([]string{"run", server, "--name", workload, "--proxy-port", port, "-o", "json"}, h.fill(b.run, ""))
	cmd := exec.CommandContext(bounded, h.thv, args...)
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var started struct {
		URL string `json:"url"`
	}
	if err == nil {
		err = json.Unmarshal(out, &started)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("thv run %s: %w: %s", server, err, bytes.TrimSpace(stderr.Bytes()))
	}
	url := strings.Replace(started.URL, "127.0.0.1", "localhost", 1)
	return &gateway{url: url, stop: stop, thv: h.thv, workload: workload, env: env}, nil
}

// makeImage makes goImage: an image from nothing with go-sdk's server in it.
func (h *harness) makeImage(ctx context.Context) error {
	// The one of the run before would stay, without a name.
	exec.CommandContext(ctx, "docker", "rmi", goImage).Run()
	tar := exec.CommandContext(ctx, "tar", "-c", "-C", h.cache, "everything-server")
	docker := exec.CommandContext(ctx, "docker", "import", "--change", `ENTRYPOINT ["/everything-server"]`, "-", goImage)
	pipe, err := tar.StdoutPipe()
	if err != nil {
		return err
	}
	docker.Stdin = pipe
	if err := tar.Start(); err != nil {
		return fmt.Errorf("pack the server: %w", err)
	}
	out, err := docker.CombinedOutput()
	if err := errors.Join(err, tar.Wait()); err != nil {
		return fmt.Errorf("make the image %s: %w: %s", goImage, err, bytes.TrimSpace(out))
	}
	return nil
}
