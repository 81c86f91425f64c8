//go:build integration

package enginetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

func (s *suite) info(t *testing.T) {
	i := info(t, s.engine)
	if i.Name == "" || i.Version == "" || i.OS != "linux" || i.Arch == "" || i.Socket == "" || i.APIVersion == "" {
		t.Errorf("%+v", i)
	}
}

func (s *suite) nameTaken(t *testing.T) {
	var cfg container.Config
	s.create(t, func(c *container.Config) { cfg = *c }, "echo")
	if _, err := s.engine.Create(t.Context(), cfg); !errors.Is(err, container.ErrNameTaken) {
		t.Errorf("got %v", err)
	}
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

// list takes all labels together.
func (s *suite) list(t *testing.T) {
	one := s.create(t, func(c *container.Config) { c.Labels["side"] = "left" }, "echo")
	s.create(t, func(c *container.Config) { c.Labels["side"] = "right" }, "echo")
	found, err := s.engine.List(t.Context(), map[string]string{label: s.run, "side": "left"})
	if err != nil || len(found) != 1 || found[0].ID != one || found[0].State != "created" || found[0].Labels["side"] != "left" || !strings.HasPrefix(found[0].Name, "thv-enginetest-") {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err = s.engine.List(t.Context(), map[string]string{label: s.run, "side": "none"}); err != nil || len(found) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// missing: what is not there is ErrNotFound for every method that needs it.
func (s *suite) missing(t *testing.T) {
	const none = "thv-enginetest-none"
	_, attach := s.engine.Attach(t.Context(), none)
	_, wait := s.engine.Wait(t.Context(), none)
	_, inspect := s.engine.Inspect(t.Context(), none)
	for name, err := range map[string]error{
		"attach": attach, "wait": wait, "inspect": inspect,
		"start": s.engine.Start(t.Context(), none),
		"copy":  s.engine.CopyTo(t.Context(), none, "/", tarOf(t, nil)),
	} {
		if !errors.Is(err, container.ErrNotFound) || !strings.Contains(err.Error(), none) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.engine.Remove(t.Context(), none); err != nil {
		t.Errorf("remove: %v", err)
	}
	if err := s.engine.RemoveImage(t.Context(), "thv.local/enginetest/none:1"); err != nil {
		t.Errorf("remove image: %v", err)
	}
}
