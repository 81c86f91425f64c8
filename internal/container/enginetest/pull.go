//go:build integration

package enginetest

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/toolhaven/toolhaven/internal/container"
)

// pull fetches from a real registry on this machine; engines trust a loopback
// address without settings.
func (s *suite) pull(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/enginetest/probe:" + s.run
	tag, err := name.NewTag(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, s.image); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.engine.RemoveImage(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	steps := 0
	if err := s.engine.Pull(t.Context(), ref, func(container.Progress) { steps++ }); err != nil {
		t.Fatal(err)
	}
	if steps == 0 {
		t.Error("no progress was reported")
	}
	if got := s.output(t, func(c *container.Config) { c.Image = ref }, "pid"); got != "1\n" {
		t.Errorf("the pulled image printed %q", got)
	}
	err = s.engine.Pull(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/enginetest/none:1", nil)
	if !errors.Is(err, container.ErrNotFound) {
		t.Errorf("pull of nothing: %v", err)
	}
}
