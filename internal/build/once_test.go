package build

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

// slowEngine builds when it is released, and may be called concurrently.
type slowEngine struct {
	mu sync.Mutex
	fakeEngine
	begun   chan struct{} // one value for each build
	release chan struct{} // closed when builds may end
}

func (s *slowEngine) Image(ctx context.Context, ref string) (container.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fakeEngine.Image(ctx, ref)
}

func (s *slowEngine) RemoveImage(ctx context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fakeEngine.RemoveImage(ctx, ref)
}

func (s *slowEngine) Build(ctx context.Context, b container.Build) error {
	s.begun <- struct{}{}
	select {
	case <-s.release:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fakeEngine.Build(ctx, b)
}

func TestConcurrentBuildsOfOneImageAreOne(t *testing.T) {
	h := newHouse(t)
	engine := &slowEngine{fakeEngine: *h.engine, begun: make(chan struct{}, 6), release: make(chan struct{})}
	type answer struct {
		res Result
		err error
	}
	start := func(ctx context.Context) chan answer {
		done := make(chan answer, 1)
		cfg := *h.cfg
		cfg.Engine = engine
		b := New(cfg)
		go func() {
			res, err := b.Build(ctx, Request{Scheme: "npx", Name: "pkg"})
			done <- answer{res, err}
		}()
		return done
	}
	ctx, stop := context.WithCancel(t.Context())
	first := start(ctx)
	<-engine.begun
	second, third := start(t.Context()), start(t.Context())
	// The first gives up: one of the others goes on, the last finds the image.
	stop()
	if a := <-first; !errors.Is(a.err, context.Canceled) || strings.Contains(a.err.Error(), "\n") {
		t.Errorf("the one that was stopped: %+v", a)
	}
	<-engine.begun
	close(engine.release)
	a, b := <-second, <-third
	if a.err != nil || b.err != nil || a.res.Image != b.res.Image || a.res.Built == b.res.Built || engine.builds != 2 {
		t.Errorf("%+v, %+v, %d builds", a, b, engine.builds)
	}
	if _, err := engine.Image(t.Context(), a.res.Image); err != nil {
		t.Errorf("the image is gone: %v", err)
	}
}

func TestAFailedInstallationHasItsOutput(t *testing.T) {
	var o stepOutput
	for _, line := range []string{"Step 1/2 : RUN a", " ---> Running in 1", "of the first", "STEP 2/2: RUN [\"npm\",\"--registry=https://u:verysecret@x\"]", "--> Using cache 1", " ---> 2", "npm ERR! \x1b[31mred", "Removing intermediate container 3"} {
		o.line(line)
	}
	err := &installError{err: errors.New("build image x: returned 1; the builder's last output:\n Step 2/2 : verysecret"), output: o.text.String()}
	if want := "build image x: returned 1; the builder's last output:\nnpm ERR! red"; err.Error() != want {
		t.Errorf("%q", err.Error())
	}
	err = &installError{err: errors.New("build image x: the engine went away")}
	if want := "build image x: the engine went away"; err.Error() != want {
		t.Errorf("%q", err.Error())
	}
}
