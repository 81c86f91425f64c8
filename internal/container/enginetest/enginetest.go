//go:build integration

// Package enginetest is the suite that every container engine passes: what the
// rest of Toolhaven relies on when it runs a server, tried on the real engine.
//
// The image it uses is made in the test, from nothing: one static program (see
// the folder probe) that reports what it sees from inside a container.
package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
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
	run    string // distinguishes this run's containers from others'
}

// Network is the network that the suite makes on the engine and, since an Engine
// removes none, leaves to the caller.
const Network = "thv-enginetest"

// Run tries the engine that open connects to.
func Run(t *testing.T, open func(t *testing.T) container.Engine) {
	engine := open(t)
	id := make([]byte, 4)
	rand.Read(id)
	s := &suite{engine: engine, run: hex.EncodeToString(id)}
	s.ref = "thv.local/enginetest/probe:" + s.run
	s.image = probeImage(t, info(t, engine).Arch)
	t.Cleanup(func() { s.nothingIsLeft(t) })
	s.load(t)

	t.Run("info", s.info)
	t.Run("an image that is not there", s.missingImage)
	t.Run("the command of an image", s.imageConfig)
	t.Run("streams, exit status and labels", s.streams)
	t.Run("bytes arrive whole both ways", s.manyBytes)
	t.Run("standard error that is not read holds nothing up", s.unreadNoise)
	t.Run("closing frees the readers", s.closed)
	t.Run("a detached client ends the input", s.detach)
	t.Run("what is not there", s.missing)
	t.Run("a list takes all labels together", s.list)
	t.Run("a name is taken once", s.nameTaken)
	t.Run("containers are hardened", s.hardened)
	t.Run("an entry point that sets up has what it needs, and no more", s.setUp)
	t.Run("nothing is set up in a network of others", s.setUpNotOurs)
	t.Run("limits are felt", s.limits)
	t.Run("files are copied in before the start", s.copyTo)
	t.Run("a user other than the image's", s.user)
	t.Run("mounts", s.mounts)
	t.Run("no port is published unless requested", s.noPorts)
	t.Run("a published port is on the loopback address", s.publish)
	t.Run("containers cannot reach each other", s.isolated)
	t.Run("without a network there is no way out", s.noNetwork)
	t.Run("removing twice is no error", s.removeTwice)
	t.Run("what is no image is not loaded", s.loadsNothing)
	t.Run("build", s.build)
	t.Run("the error of a build has its output", s.buildFails)
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

// listening waits until the probe reports that it listens.
func (s *suite) listening(t *testing.T, streams *container.Streams) {
	t.Helper()
	go io.Copy(io.Discard, streams.Stderr)
	line := make([]byte, len("listening\n"))
	if _, err := io.ReadFull(streams.Stdout, line); err != nil || string(line) != "listening\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}
