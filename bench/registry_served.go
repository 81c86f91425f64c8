package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// served is a running registry server.
type served struct {
	cmd            *exec.Cmd
	base, internal string
	ready          time.Duration // from start to ready
}

func (b *bench) serveRegistry(ctx context.Context, config string) (*served, error) {
	program := filepath.Join(filepath.Dir(b.thvPath), "thv-registry")
	cmd := exec.CommandContext(ctx, program, "serve", "--config", config, "--address", "127.0.0.1:0", "--internal-address", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &served{cmd: cmd}
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for s.base == "" && lines.Scan() {
		var said struct{ Msg, Address, InternalAddress string }
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "the registry serves" {
			s.base, s.internal = "http://"+said.Address, "http://"+said.InternalAddress
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	if s.base == "" {
		return nil, errors.New("thv-registry does not start")
	}
	for {
		resp, err := http.Get(s.internal + "/readiness")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				s.ready = time.Since(start)
				return s, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stop ends it, once.
func (s *served) stop() {
	if s != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(os.Interrupt)
		_ = s.cmd.Wait()
	}
}
