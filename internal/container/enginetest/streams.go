//go:build integration

package enginetest

import (
	"bytes"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
)

func (s *suite) streams(t *testing.T) {
	id := s.create(t, func(c *container.Config) { c.Env = []string{"A=1"} }, "exit", "7")
	streams := s.start(t, id)
	// Both are read at once: they come over one connection.
	received := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(streams.Stderr)
		received <- b
	}()
	out, _ := io.ReadAll(streams.Stdout)
	errOut := <-received
	if string(out) != "" || !strings.Contains(string(errOut), "bye") {
		t.Errorf("stdout %q, stderr %q", out, errOut)
	}
	s.wait(t, id, 7)
	found, err := s.engine.List(t.Context(), map[string]string{label: s.run})
	if err != nil || len(found) != 1 || found[0].ID != id || found[0].State != "exited" {
		t.Errorf("list: %+v, %v", found, err)
	}
	c, err := s.engine.Inspect(t.Context(), id)
	if err != nil || c.State != "exited" || c.Labels[label] != s.run {
		t.Errorf("inspect: %+v, %v", c, err)
	}
	if env := s.output(t, func(c *container.Config) { c.Env = []string{"A=1"} }, "env"); !strings.Contains(env, "A=1\n") || !strings.Contains(env, "FROM_IMAGE=yes\n") {
		t.Errorf("environment %q", env)
	}
}

func (s *suite) manyBytes(t *testing.T) {
	id := s.create(t, nil, "echo")
	streams := s.start(t, id)
	sent := make([]byte, 50<<20)
	rand.Read(sent)
	go func() {
		streams.Stdin.Write(sent)
		streams.Stdin.Close()
	}()
	noise := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, streams.Stderr)
		noise <- n
	}()
	got, err := io.ReadAll(streams.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, not the %d sent", len(got), len(sent))
	}
	if n := <-noise; n == 0 {
		t.Error("nothing came on standard error meanwhile")
	}
	s.wait(t, id, 0)
}

func (s *suite) detach(t *testing.T) {
	id := s.create(t, nil, "echo")
	streams := s.start(t, id)
	go io.Copy(io.Discard, streams.Stderr)
	if _, err := streams.Stdin.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(streams.Stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	streams.Close() // as when the gateway is killed
	s.wait(t, id, 0)
}

func (s *suite) copyTo(t *testing.T) {
	id := s.create(t, nil, "cat", "/copied")
	if err := s.engine.CopyTo(t.Context(), id, "/", tarOf(t, map[string][]byte{"copied": []byte("hello")})); err != nil {
		t.Fatal(err)
	}
	streams := s.start(t, id)
	out, _ := io.ReadAll(streams.Stdout)
	if string(out) != "hello" {
		t.Errorf("got %q", out)
	}
	s.wait(t, id, 0)
}

// unreadNoise: a reader of the standard output alone gets it.
func (s *suite) unreadNoise(t *testing.T) {
	id := s.create(t, nil, "shout", "16")
	streams := s.start(t, id)
	got := make(chan string, 1)
	go func() {
		out, _ := io.ReadAll(streams.Stdout)
		got <- string(out)
	}()
	select {
	case out := <-got:
		if out != "done\n" {
			t.Errorf("got %q", out)
		}
	case <-time.After(time.Minute):
		t.Fatal("standard error that is not read holds up the standard output")
	}
	s.wait(t, id, 0)
	rest, err := io.ReadAll(streams.Stderr)
	if err != nil || len(rest) == 0 || len(rest) >= 16<<20 {
		t.Errorf("%d bytes of standard error were left, %v", len(rest), err)
	}
}

// closed: closing ends pending reads, and may be done twice.
func (s *suite) closed(t *testing.T) {
	streams := s.start(t, s.create(t, nil, "echo"))
	ended := make(chan struct{}, 2)
	for _, r := range []io.Reader{streams.Stdout, streams.Stderr} {
		go func() {
			io.Copy(io.Discard, r)
			ended <- struct{}{}
		}()
	}
	for range 2 {
		if err := streams.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("a reader still waits on streams that are closed")
		}
	}
}
