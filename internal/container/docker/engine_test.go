package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/toolhaven/toolhaven/internal/container"
)

func TestTheFirstCallAfterAnEngineRestartWorks(t *testing.T) {
	socket := filepath.Join(socketDir(t), "e.sock")
	h := fakeEngine(map[string]http.HandlerFunc{"/containers/{id}/json": responds(200, `{"Id":"x","Name":"/a"}`)})
	stop := listen(t, socket, h)
	e, err := Connect(t.Context(), envOf(map[string]string{"THV_ENGINE": socket}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 3 {
		if _, err := e.Inspect(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		stop()
		if _, err := e.Inspect(t.Context(), "a"); !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), socket) {
			t.Fatalf("while it is down: %v", err)
		}
		stop = listen(t, socket, h)
		if _, err := e.Inspect(t.Context(), "a"); err != nil {
			t.Fatalf("the first call after the restart: %v", err)
		}
	}
}

func TestErrorsThatCallersDecideOn(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	e := connect(t, fakeEngine(map[string]http.HandlerFunc{
		"/containers/gone/json":    responds(404, `{"message":"No such container: gone"}`),
		"/containers/broken/json":  responds(500, `{"message":"\u001b[31mdisk\u0007 full"}`),
		"/containers/lost/wait":    hangUp,
		"/containers/wrong/wait":   responds(200, `{"StatusCode":0,"Error":{"Message":"it was never started"}}`),
		"/containers/gone/attach":  responds(404, `{"message":"No such container: gone"}`),
		"/containers/gone/archive": responds(404, `{"message":"No such container: gone"}`),
	}))
	_, err := e.Inspect(t.Context(), "gone")
	if !errors.Is(err, container.ErrNotFound) || err.Error() != "inspect container gone: not found: No such container: gone" {
		t.Errorf("missing: %v", err)
	}
	if _, err := e.Attach(t.Context(), "gone"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("attach to a missing one: %v", err)
	}
	if err := e.CopyTo(t.Context(), "gone", "/", strings.NewReader("")); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("copy into a missing one: %v", err)
	}
	if _, err = e.Inspect(t.Context(), "broken"); err == nil || err.Error() != "inspect container broken: disk full" {
		t.Errorf("an error that would write to the terminal: %q", err)
	}
	if _, err = e.Wait(t.Context(), "lost"); !errors.Is(err, container.ErrUnavailable) {
		t.Errorf("an engine that hangs up: %v", err)
	}
	if _, err = e.Wait(t.Context(), "wrong"); err == nil || !strings.Contains(err.Error(), "never started") {
		t.Errorf("a wait that failed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = e.Inspect(ctx, "gone"); !errors.Is(err, context.Canceled) || errors.Is(err, container.ErrUnavailable) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRemoveWaitsForAnotherRemovalAndForNothingElse(t *testing.T) {
	var looks atomic.Int32
	e := connect(t, fakeEngine(map[string]http.HandlerFunc{
		"DELETE /containers/going": responds(409, `{"message":"removal of container going is already in progress"}`),
		"GET /containers/going/json": func(w http.ResponseWriter, r *http.Request) {
			if looks.Add(1) < 3 {
				responds(200, `{"Id":"going"}`)(w, r)
				return
			}
			responds(404, `{"message":"No such container"}`)(w, r)
		},
		"DELETE /containers/stuck":     responds(409, `{"message":"container is held by another"}`),
		"GET /containers/stuck/json":   responds(200, `{"Id":"stuck"}`),
		"DELETE /containers/missing":   responds(404, `{"message":"No such container"}`),
		"GET /containers/missing/json": responds(404, `{"message":"No such container"}`),
	}))
	if err := e.Remove(t.Context(), "going"); err != nil || looks.Load() != 3 {
		t.Errorf("%v after %d looks", err, looks.Load())
	}
	if err := e.Remove(t.Context(), "missing"); err != nil {
		t.Error(err)
	}
	if err := e.Remove(t.Context(), "stuck"); err == nil || !strings.Contains(err.Error(), "held by another") {
		t.Errorf("got %v", err)
	}
}

func TestAStreamOfOursThatFailsIsNotTheEnginesFault(t *testing.T) {
	drain := func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
	e := connect(t, fakeEngine(map[string]http.HandlerFunc{"/images/load": drain, "/build": drain, "/containers/{id}/archive": drain}))
	ours := errors.New("the disk is gone")
	broken := func() io.Reader { return io.MultiReader(strings.NewReader("some"), iotest.ErrReader(ours)) }
	for name, err := range map[string]error{
		"load":  e.Load(t.Context(), broken()),
		"build": e.Build(t.Context(), container.Build{Context: broken()}),
		"copy":  e.CopyTo(t.Context(), "a", "/", broken()),
	} {
		if !errors.Is(err, ours) || errors.Is(err, container.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
