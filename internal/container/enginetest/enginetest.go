//go:build integration

// Package enginetest is the suite that every container engine passes: what the
// rest of Toolhaven relies on when it runs a server, tried on the real engine.
//
// The image it uses is made in the test, from nothing: one static program (see
// the folder probe) that says what it sees from inside a container.
package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/toolhaven/toolhaven/internal/container"
)

// label marks everything the suite makes.
const label = "dev.toolhaven.enginetest"

// suite is one run of the tests.
type suite struct {
	engine container.Engine
	image  v1.Image
	ref    string // of the loaded image
	run    string // tells this run's containers from others'
}

// Run tries the engine.
func Run(t *testing.T, engine container.Engine) {
	id := make([]byte, 4)
	rand.Read(id)
	s := &suite{engine: engine, run: hex.EncodeToString(id)}
	s.ref = "thv.local/enginetest/probe:" + s.run
	s.image = probeImage(t, info(t, engine).Arch)
	t.Cleanup(func() { s.nothingIsLeft(t) })
	s.load(t)

	t.Run("info", s.info)
	t.Run("an image that is not there", s.missingImage)
	t.Run("an image says how it starts", s.imageConfig)
	t.Run("streams, exit status and labels", s.streams)
	t.Run("bytes arrive whole both ways", s.manyBytes)
	t.Run("a detached client ends the input", s.detach)
	t.Run("a name is taken once", s.nameTaken)
	t.Run("containers are hardened", s.hardened)
	t.Run("files are copied in before the start", s.copyTo)
	t.Run("mounts", s.mounts)
	t.Run("no port is published unless asked", s.noPorts)
	t.Run("a published port is on the loopback address", s.publish)
	t.Run("containers cannot reach each other", s.isolated)
	t.Run("without a network there is no way out", s.noNetwork)
	t.Run("stop asks, then kills", s.stop)
	t.Run("removing twice is no error", s.removeTwice)
	t.Run("build", s.build)
	t.Run("a build that fails says why", s.buildFails)
	t.Run("pull", s.pull)
}

func info(t *testing.T, e container.Engine) container.Info {
	t.Helper()
	i, err := e.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (s *suite) load(t *testing.T) {
	t.Helper()
	tag, err := name.NewTag(s.ref)
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := tarball.Write(tag, s.image, &saved); err != nil {
		t.Fatal(err)
	}
	if err := s.engine.Load(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
}

// nothingIsLeft removes what the suite made and complains about containers that
// a test forgot.
func (s *suite) nothingIsLeft(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := s.engine.List(ctx, map[string]string{label: s.run})
	if err != nil {
		t.Error(err)
	}
	for _, c := range left {
		t.Errorf("container %s (%s) was left", c.Name, c.State)
		if err := s.engine.Remove(ctx, c.ID); err != nil {
			t.Error(err)
		}
	}
	if err := s.engine.RemoveImage(ctx, s.ref); err != nil {
		t.Error(err)
	}
}

var count atomic.Int64

// create makes a container of the probe that is removed after the test.
func (s *suite) create(t *testing.T, change func(*container.Config), args ...string) string {
	t.Helper()
	cfg := container.Config{
		Name: fmt.Sprintf("thv-enginetest-%s-%d", s.run, count.Add(1)), Image: s.ref, Entrypoint: []string{"/probe"}, Args: args,
		Labels: map[string]string{label: s.run}, Network: "none",
	}
	if change != nil {
		change(&cfg)
	}
	id, err := s.engine.Create(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.engine.Remove(ctx, id); err != nil {
			t.Error(err)
		}
	})
	return id
}

// start attaches to a container and starts it.
func (s *suite) start(t *testing.T, id string) *container.Streams {
	t.Helper()
	streams, err := s.engine.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { streams.Close() })
	if err := s.engine.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return streams
}

// output runs the probe to its end and returns what it wrote.
func (s *suite) output(t *testing.T, change func(*container.Config), args ...string) string {
	t.Helper()
	id := s.create(t, change, args...)
	streams := s.start(t, id)
	go io.Copy(io.Discard, streams.Stderr)
	out, err := io.ReadAll(streams.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	s.wait(t, id, 0)
	return string(out)
}

func (s *suite) wait(t *testing.T, id string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	status, err := s.engine.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if status.Code != want {
		t.Fatalf("exit status %d, want %d", status.Code, want)
	}
}

func (s *suite) info(t *testing.T) {
	i := info(t, s.engine)
	if i.Name == "" || i.Version == "" || i.OS != "linux" || i.Arch == "" || i.Socket == "" || i.APIVersion == "" {
		t.Errorf("%+v", i)
	}
}

func (s *suite) missingImage(t *testing.T) {
	if _, err := s.engine.Image(t.Context(), "thv.local/enginetest/none:1"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	_, err := s.engine.Create(t.Context(), container.Config{Name: "thv-enginetest-none", Image: "thv.local/enginetest/none:1"})
	if !errors.Is(err, container.ErrNotFound) {
		t.Errorf("create: %v", err)
	}
}

func (s *suite) imageConfig(t *testing.T) {
	i, err := s.engine.Image(t.Context(), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(i.ID, "sha256:") || i.OS != "linux" || len(i.Entrypoint) != 1 || i.Entrypoint[0] != "/probe" ||
		len(i.Cmd) != 1 || len(i.ExposedPorts) != 1 || i.ExposedPorts[0] != 8080 || i.Labels["made"] != "by a test" {
		t.Errorf("%+v", i)
	}
}

func (s *suite) streams(t *testing.T) {
	id := s.create(t, func(c *container.Config) { c.Env = []string{"A=1"} }, "exit", "7")
	streams := s.start(t, id)
	// Both are read at once: they come over one connection.
	said := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(streams.Stderr)
		said <- b
	}()
	out, _ := io.ReadAll(streams.Stdout)
	errOut := <-said
	if string(out) != "" || !strings.Contains(string(errOut), "bye") {
		t.Errorf("stdout %q, stderr %q", out, errOut)
	}
	s.wait(t, id, 7)
	found, err := s.engine.List(t.Context(), map[string]string{label: s.run})
	if err != nil || len(found) != 1 || found[0].ID != id || found[0].State != "exited" {
		t.Errorf("list: %+v, %v", found, err)
	}
	c, err := s.engine.Inspect(t.Context(), id)
	if err != nil || c.Exit.Code != 7 || c.Labels[label] != s.run || c.Created.IsZero() {
		t.Errorf("inspect: %+v, %v", c, err)
	}
	if env := s.output(t, func(c *container.Config) { c.Env = []string{"A=1"} }, "env"); !strings.Contains(env, "A=1\n") || !strings.Contains(env, "FROM_IMAGE=yes\n") {
		t.Errorf("environment %q", env)
	}
}

func (s *suite) manyBytes(t *testing.T) {
	id := s.create(t, nil, "echo")
	streams := s.start(t, id)
	sent := make([]byte, 20<<20)
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

func (s *suite) nameTaken(t *testing.T) {
	var cfg container.Config
	s.create(t, func(c *container.Config) { cfg = *c }, "echo")
	if _, err := s.engine.Create(t.Context(), cfg); !errors.Is(err, container.ErrNameTaken) {
		t.Errorf("got %v", err)
	}
}

func (s *suite) hardened(t *testing.T) {
	status := s.output(t, nil, "cat", "/proc/self/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("from inside, %q is not so:\n%s", want, status)
		}
	}
	if pid := s.output(t, nil, "pid"); pid != "1\n" {
		t.Errorf("the entry point has process id %s", pid)
	}
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

func (s *suite) mounts(t *testing.T) {
	dir := t.TempDir()
	// Without any capability, root in the container is nobody special.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("host"), 0o666); err != nil {
		t.Fatal(err)
	}
	at := func(readOnly bool) func(*container.Config) {
		return func(c *container.Config) {
			c.Mounts = []container.Mount{{Source: dir, Target: "/m", ReadOnly: readOnly}}
		}
	}
	if got := s.output(t, at(true), "cat", "/m/f"); got != "host" {
		t.Errorf("read %q", got)
	}
	if got := s.output(t, at(true), "write", "/m/g"); !strings.Contains(got, "read-only") {
		t.Errorf("a write through a read-only mount: %q", got)
	}
	if got := s.output(t, at(false), "write", "/m/g"); got != "written\n" {
		t.Errorf("a write: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "g")); err != nil {
		t.Error(err)
	}
	missing := filepath.Join(dir, "none")
	_, err := s.engine.Create(t.Context(), container.Config{Name: "thv-enginetest-missing", Image: s.ref, Mounts: []container.Mount{{Source: missing, Target: "/m"}}})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a mount of nothing: %v", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the engine made the missing directory")
	}
}

func (s *suite) noPorts(t *testing.T) {
	id := s.create(t, func(c *container.Config) { c.Network = "" }, "listen", "8080")
	s.listening(t, s.start(t, id))
	c, err := s.engine.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.HostPorts) != 0 {
		t.Errorf("published: %+v", c.HostPorts)
	}
}

// listening waits until the probe says that it listens.
func (s *suite) listening(t *testing.T, streams *container.Streams) {
	t.Helper()
	go io.Copy(io.Discard, streams.Stderr)
	line := make([]byte, len("listening\n"))
	if _, err := io.ReadFull(streams.Stdout, line); err != nil || string(line) != "listening\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

func (s *suite) publish(t *testing.T) {
	id := s.create(t, func(c *container.Config) {
		c.Network = ""
		c.Publish = []container.Port{{ContainerPort: 8080}}
	}, "listen", "8080")
	s.listening(t, s.start(t, id))
	c, err := s.engine.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.HostPorts) != 1 || c.HostPorts[0].HostIP != "127.0.0.1" || c.HostPorts[0].ContainerPort != 8080 {
		t.Fatalf("published: %+v", c.HostPorts)
	}
	client := &http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", c.HostPorts[0].HostPort))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "probe" {
		t.Errorf("got %q", body)
	}
}

func (s *suite) isolated(t *testing.T) {
	const network = "thv-enginetest"
	for range 2 { // it exists the second time
		if err := s.engine.EnsureNetwork(t.Context(), network); err != nil {
			t.Fatal(err)
		}
	}
	on := func(c *container.Config) { c.Network = network }
	id := s.create(t, on, "listen", "8080")
	s.listening(t, s.start(t, id))
	c, err := s.engine.Inspect(t.Context(), id)
	if err != nil || c.IP == "" {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := s.output(t, on, "dial", c.IP+":8080"); got != "no\n" {
		t.Errorf("a neighbour was reached: %q", got)
	}
	// The probe does reach what can be reached: itself, on its own address.
	if got := s.output(t, on, "dial-self"); got != "yes\n" {
		t.Errorf("the probe cannot dial at all: %q", got)
	}
}

func (s *suite) noNetwork(t *testing.T) {
	if got := s.output(t, nil, "interfaces"); got != "lo\n" {
		t.Errorf("interfaces: %q", got)
	}
}

func (s *suite) stop(t *testing.T) {
	polite := s.create(t, nil, "term")
	streams := s.start(t, polite)
	s.listening(t, streams)
	if err := s.engine.Stop(t.Context(), polite, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(t, polite, 3) // the probe's own exit status after SIGTERM
	stubborn := s.create(t, nil, "stubborn")
	streams = s.start(t, stubborn)
	s.listening(t, streams)
	if err := s.engine.Stop(t.Context(), stubborn, time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(t, stubborn, 137)
}

func (s *suite) removeTwice(t *testing.T) {
	id := s.create(t, nil, "stubborn")
	s.listening(t, s.start(t, id))
	for range 2 {
		if err := s.engine.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.engine.Inspect(t.Context(), id); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("after removal: %v", err)
	}
}

func (s *suite) build(t *testing.T) {
	tag := "thv.local/enginetest/built:" + s.run
	var log []string
	err := s.engine.Build(t.Context(), container.Build{
		Context: tarOf(t, map[string][]byte{"Dockerfile": []byte("FROM " + s.ref + "\nARG WORD\nENV WORD=$WORD\nCOPY file /file\n"), "file": []byte("content")}),
		Tags:    []string{tag}, Labels: map[string]string{"l": "1"}, BuildArgs: map[string]string{"WORD": "spoken"}, NetworkOff: true,
		Log: func(line string) { log = append(log, line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.engine.RemoveImage(context.Background(), tag); err != nil {
			t.Error(err)
		}
	})
	image, err := s.engine.Image(t.Context(), tag)
	if err != nil || image.Labels["l"] != "1" || !strings.Contains(strings.Join(image.Env, " "), "WORD=spoken") {
		t.Errorf("%+v, %v", image, err)
	}
	if len(log) == 0 {
		t.Error("the builder said nothing")
	}
	if got := s.output(t, func(c *container.Config) { c.Image = tag }, "cat", "/file"); got != "content" {
		t.Errorf("got %q", got)
	}
}

func (s *suite) buildFails(t *testing.T) {
	tag := "thv.local/enginetest/broken:" + s.run
	err := s.engine.Build(t.Context(), container.Build{
		Context: tarOf(t, map[string][]byte{"Dockerfile": []byte("FROM " + s.ref + "\nRUN [\"/probe\", \"exit\", \"7\"]\n")}),
		Tags:    []string{tag}, NetworkOff: true,
	})
	if err == nil || !strings.Contains(err.Error(), "7") || !strings.Contains(err.Error(), "bye") {
		t.Errorf("got %v", err)
	}
	if _, err := s.engine.Image(t.Context(), tag); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("a failed build left an image: %v", err)
	}
}
