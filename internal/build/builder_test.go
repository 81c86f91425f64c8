package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container"
)

// fakeEngine has images and builds what is requested; any other call is a nil
// pointer's panic. The integration tests use a real engine.
type fakeEngine struct {
	container.Engine
	images map[string]string // reference -> id
	builds int               // an installation takes two
	fail   error             // of Build, after the image was made
}

func (f *fakeEngine) Info(context.Context) (container.Info, error) {
	return container.Info{OS: "linux", Arch: "amd64"}, nil
}

func (f *fakeEngine) Image(_ context.Context, ref string) (container.Image, error) {
	id, ok := f.images[ref]
	if !ok {
		return container.Image{}, container.ErrNotFound
	}
	return container.Image{ID: id}, nil
}

func (f *fakeEngine) Build(_ context.Context, b container.Build) error {
	if _, err := io.Copy(io.Discard, b.Context); err != nil {
		return err
	}
	f.builds++
	for _, tag := range b.Tags {
		f.images[tag] = "sha256:of-" + tag
	}
	return f.fail
}

func (f *fakeEngine) Pull(_ context.Context, ref string, _ func(container.Progress)) error {
	return fmt.Errorf("%s: no registry is here", ref)
}

func (f *fakeEngine) RemoveImage(_ context.Context, ref string) error {
	delete(f.images, ref)
	return nil
}

// house is a Builder over a fake engine and a registry of one package.
type house struct {
	*Builder
	engine *fakeEngine
	env    map[string]string
}

func newHouse(t *testing.T) house {
	t.Helper()
	url := registry(t, map[string]string{
		"/pkg": `{"dist-tags":{"latest":"1.0.1"},"versions":{"1.0.0":{},"1.0.1":{}}}`,
	})
	h := house{
		engine: &fakeEngine{images: map[string]string{defaultNode: "sha256:base"}},
		env:    map[string]string{"NPM_CONFIG_REGISTRY": url},
	}
	h.Builder = New(Config{Engine: h.engine, StateDir: t.TempDir(), Env: func(k string) string { return h.env[k] }})
	return h
}

func (h house) mustBuild(t *testing.T, r Request) Result {
	t.Helper()
	res, err := h.Build(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestTheSameRequestIsAnsweredFromItsRecord(t *testing.T) {
	h := newHouse(t)
	r := Request{Scheme: "npx", Name: "pkg", AddPackages: []string{"b", "a"}}
	first := h.mustBuild(t, r)
	if !first.Built || first.Version != "1.0.1" {
		t.Fatalf("%+v", first)
	}
	h.env["NPM_CONFIG_REGISTRY"] = "http://127.0.0.1:1"
	r.AddPackages = []string{"a", "b", "a"}
	second := h.mustBuild(t, r)
	if diff := cmp.Diff(Result{Image: first.Image, Version: "1.0.1"}, second); diff != "" || h.engine.builds != 2 {
		t.Fatalf("%d builds (-want +got):\n%s", h.engine.builds, diff)
	}
	for name, change := range map[string]func(*Request){
		"refresh":       func(r *Request) { r.Refresh = true },
		"latest":        func(r *Request) { r.Version = "latest" },
		"other version": func(r *Request) { r.Version = "1.0.0" },
		"other args":    func(r *Request) { r.Args = []string{"x"} },
		"authority":     func(r *Request) { r.CACert = authority(t) },
	} {
		other := r
		change(&other)
		if res, err := h.Build(t.Context(), other); err == nil {
			t.Errorf("%s: the registry received no request: %+v", name, res)
		}
	}
}

func TestARecordHoldsOnlyAsLongAsItIsTrue(t *testing.T) {
	r := Request{Scheme: "npx", Name: "pkg"}
	for name, change := range map[string]func(h house, image string){
		"image gone":     func(h house, image string) { delete(h.engine.images, image) },
		"image replaced": func(h house, image string) { h.engine.images[image] = "sha256:other" },
		"base replaced":  func(h house, _ string) { h.engine.images[defaultNode] = "sha256:newer" },
		"record broken": func(h house, _ string) {
			paths, err := filepath.Glob(filepath.Join(h.cfg.StateDir, "builds", "*.json"))
			if err != nil || len(paths) != 1 {
				t.Fatalf("records: %v, %v", paths, err)
			}
			if err := os.WriteFile(paths[0], []byte(`{"Request":`), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		h := newHouse(t)
		first := h.mustBuild(t, r)
		change(h, first.Image)
		h.env["NPM_CONFIG_REGISTRY"] = "http://127.0.0.1:1"
		if res, err := h.Build(t.Context(), r); err == nil {
			t.Errorf("%s: %+v came from the record", name, res)
		}
	}
	h := newHouse(t)
	first := h.mustBuild(t, r)
	delete(h.engine.images, defaultNode)
	if res := h.mustBuild(t, r); res.Built || res.Image != first.Image {
		t.Errorf("a base image that is gone made %+v", res)
	}
}

func TestAFailedBuildLeavesNeitherImageNorRecord(t *testing.T) {
	h := newHouse(t)
	h.engine.fail = errors.New("step 3 failed: " + strings.Repeat("output\n", 10000) + "the last line")
	_, err := h.Build(t.Context(), Request{Scheme: "npx", Name: "pkg"})
	if err == nil || !strings.HasSuffix(err.Error(), "the last line") || len(err.Error()) > maxOutput+200 {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(map[string]string{defaultNode: "sha256:base"}, h.engine.images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(h.cfg.StateDir, "builds")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a record was kept: %v", err)
	}
}

func TestOneMoreTagIsPutOnAnImageThatIsThere(t *testing.T) {
	h := newHouse(t)
	h.mustBuild(t, Request{Scheme: "npx", Name: "pkg"})
	res := h.mustBuild(t, Request{Scheme: "npx", Name: "pkg", Tag: "mine:1"})
	if _, ok := h.engine.images["mine:1"]; !ok || res.Built {
		t.Fatalf("%+v, %v", res, h.engine.images)
	}
}

func TestWithoutGoAndABuilderImageTheErrorHasAHint(t *testing.T) {
	h := newHouse(t)
	h.env["PATH"] = t.TempDir()
	_, err := h.Build(t.Context(), Request{Scheme: "go", Name: "example.com/x"})
	if err == nil || !strings.Contains(err.Error(), "install Go") || !strings.Contains(err.Error(), "--runtime-image") || !strings.Contains(err.Error(), defaultGo) {
		t.Fatalf("%v", err)
	}
}

func TestAFileOfKeysOrOfNothingIsNoAuthority(t *testing.T) {
	h := newHouse(t)
	for _, text := range []string{"", "not PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if res, err := h.Build(t.Context(), Request{Scheme: "npx", Name: "pkg", CACert: path}); err == nil {
			t.Errorf("%q was taken: %+v", text, res)
		}
	}
}
