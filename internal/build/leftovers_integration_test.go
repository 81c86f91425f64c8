//go:build integration

package build

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/container/docker"
)

// What a build leaves that is killed is removed by the next sweep, if no build is under way
// and it is this store's.
func TestASweepRemovesWhatAKilledBuildLeft(t *testing.T) {
	engine, err := docker.Connect(t.Context(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	mine, other := New(Config{Engine: engine, StateDir: t.TempDir(), Store: "sweep-mine"}), New(Config{Engine: engine, StateDir: t.TempDir(), Store: "sweep-other"})
	leave := func(store, tag string) {
		t.Helper()
		dockerfile := "FROM scratch\nLABEL " + labelStep + "=" + stepYes + " " + labelMaker + "=" + store + "\nENV WORD=" + tag + "\n"
		tree, err := packTree([]file{{name: "Dockerfile", content: []byte(dockerfile)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Build(t.Context(), container.Build{Context: tree, Tags: []string{tag}, NetworkOff: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.RemoveImage(t.Context(), tag) })
	}
	there := func(tag string) bool {
		t.Helper()
		_, err := engine.Image(t.Context(), tag)
		if err != nil && !errors.Is(err, container.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	const mineTag, otherTag = "thv.local/stage:sweep-mine", "thv.local/stage:sweep-other"
	leave("sweep-mine", mineTag)
	leave("sweep-other", otherTag)
	work := filepath.Join(mine.workDir(), "go-1", "module")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := mine.buildLock()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.RLock(); err != nil { // a build is under way
		t.Fatal(err)
	}
	if n := mine.Sweep(t.Context()); n != 0 || !there(mineTag) {
		t.Errorf("%d removed of a build that is under way", n)
	}
	if err := lock.Unlock(); err != nil { // it was killed
		t.Fatal(err)
	}
	if n := mine.Sweep(t.Context()); n != 2 || there(mineTag) {
		t.Errorf("%d removed, want the step and the directory", n)
	}
	if _, err := os.Stat(work); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	if !there(otherTag) {
		t.Error("another store's was removed")
	}
	if n := other.Sweep(t.Context()); n != 1 || there(otherTag) {
		t.Errorf("%d removed", n)
	}
}

// The image of an installation is no step of one, so that no sweep removes it.
func TestTheImageItselfIsNoStep(t *testing.T) {
	labels := common{cfg: &Config{Store: "s"}}.labels(Request{Scheme: schemeNPX, Name: "x"}, "1")
	if step, ok := labels[labelStep]; !ok || step != "" || labels[labelMaker] != "s" {
		t.Errorf("%v", labels)
	}
	first, second := installation{scheme: schemeNPX, name: "x", version: "1", base: "b", maker: "s"}.dockerfiles("stage:1")
	for _, text := range []string{first, second} {
		if !strings.HasPrefix(text, "FROM b\nLABEL "+labelStep+"="+stepYes+" "+labelMaker+"=\"s\"\n") {
			t.Errorf("no label on its steps:\n%s", text)
		}
	}
}
