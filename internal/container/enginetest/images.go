//go:build integration

package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

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

func (s *suite) build(t *testing.T) {
	tag := "thv.local/enginetest/built:" + s.run
	var log []string
	err := s.engine.Build(t.Context(), container.Build{
		Context: tarOf(t, map[string][]byte{"Dockerfile": []byte("FROM " + s.ref + "\nENV WORD=set\nCOPY file /file\n"), "file": []byte("content")}),
		Tags:    []string{tag}, Labels: map[string]string{"l": "1"}, NetworkOff: true,
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
	if err != nil || image.Labels["l"] != "1" || !strings.Contains(strings.Join(image.Env, " "), "WORD=set") {
		t.Errorf("%+v, %v", image, err)
	}
	listed, err := s.engine.Images(t.Context(), map[string]string{"l": "1", "made": ""})
	if err != nil || !slices.ContainsFunc(listed, func(i container.Image) bool {
		return i.ID == image.ID && slices.Contains(i.Tags, tag) && i.Labels["l"] == "1" && i.Size > 0
	}) {
		t.Errorf("listed by its labels: %+v, %v", listed, err)
	}
	for _, other := range []map[string]string{{"l": "2"}, {"l": "2", "made": ""}, {"l": "1", "made": "by another"}} {
		if listed, err := s.engine.Images(t.Context(), other); err != nil || len(listed) > 0 {
			t.Errorf("listed by %v: %+v, %v", other, listed, err)
		}
	}
	s.inUse(t, tag)
	if len(log) == 0 {
		t.Error("the builder reported no output")
	}
	if got := s.output(t, func(c *container.Config) { c.Image = tag }, "cat", "/file"); got != "content" {
		t.Errorf("got %q", got)
	}
}

// inUse: an image that a container is made of is not removed.
func (s *suite) inUse(t *testing.T, tag string) {
	id, err := s.engine.Create(t.Context(), container.Config{Name: "thv-enginetest-in-use-" + s.run, Image: tag, Labels: map[string]string{label: s.run}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.engine.Remove(context.Background(), id); err != nil {
			t.Error(err)
		}
	}()
	if err := s.engine.RemoveImage(t.Context(), tag); !errors.Is(err, container.ErrInUse) {
		t.Errorf("remove an image in use: %v", err)
	}
	if _, err := s.engine.Image(t.Context(), tag); err != nil {
		t.Errorf("it is gone: %v", err)
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

func (s *suite) loadsNothing(t *testing.T) {
	if err := s.engine.Load(t.Context(), strings.NewReader("this is no image")); err == nil {
		t.Error("something that is no image was loaded")
	}
}
