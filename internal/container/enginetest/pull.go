//go:build integration

package enginetest

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
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
	digest, err := s.image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	// Before the engine has it. Podman does not look digests up.
	if got, err := s.engine.RegistryDigest(t.Context(), ref); got != digest.String() && !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("digest %q, %v, want %s", got, err, digest)
	}
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
	image, err := s.engine.Image(t.Context(), ref)
	if err != nil || !slices.Contains(image.Digests, strings.TrimSuffix(ref, ":"+s.run)+"@"+digest.String()) || image.Size == 0 {
		t.Errorf("%+v, %v, want the digest %s", image, err, digest)
	}
	s.otherPlatform(t, strings.TrimPrefix(server.URL, "http://")+"/enginetest/other:1")
	none := strings.TrimPrefix(server.URL, "http://") + "/enginetest/none:1"
	err = s.engine.Pull(t.Context(), none, nil)
	if !errors.Is(err, container.ErrNotFound) {
		t.Errorf("pull of nothing: %v", err)
	}
	if _, err := s.engine.RegistryDigest(t.Context(), none); !errors.Is(err, container.ErrNotFound) && !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("digest of nothing: %v", err)
	}
}

// otherPlatform pulls an index without an image for this machine.
func (s *suite) otherPlatform(t *testing.T, ref string) {
	t.Helper()
	tag, err := name.NewTag(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: s.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}},
	})
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	err = s.engine.Pull(t.Context(), ref, nil)
	if err == nil || errors.Is(err, container.ErrNotFound) || !strings.Contains(err.Error(), "not made for this engine's platform") {
		t.Errorf("pull of an image for another platform: %v", err)
	}
}
