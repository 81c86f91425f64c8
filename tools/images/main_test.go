package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// built is a folder with programs and authorities.
func built(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	write := func(path, content string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, program := range []string{"thv", "thv-guest", "thv-operator"} {
			write("linux-"+arch+"/"+program, program+" for "+arch)
		}
	}
	return options{programs: dir, out: filepath.Join(dir, "out"), ca: write("ca.crt", "authorities"), version: "v1", platforms: linux("amd64,arm64")}
}

func TestBuild(t *testing.T) {
	o := built(t)
	o.created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, i := range images {
		index, err := i.build(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := i.build(o)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := index.Digest()
		if second, _ := again.Digest(); first != second {
			t.Errorf("%s: built twice, %s and %s", i.name, first, second)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 2 {
			t.Fatalf("%s: %v, %v", i.name, manifest, err)
		}
		for _, d := range manifest.Manifests {
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != "65532:65532" || config.Architecture != d.Platform.Architecture || !config.Created.Equal(o.created) {
				t.Errorf("%s: %+v", i.name, config)
			}
			want := map[string]string{"tmp": "dir 1777", authorities: "authorities 444"}
			for program, path := range i.programs {
				want[path] = program + " for " + d.Platform.Architecture + " 555"
			}
			if diff := cmp.Diff(want, content(t, img)); diff != "" {
				t.Errorf("%s for %s: %s", i.name, d.Platform, diff)
			}
			if _, ok := want[strings.TrimPrefix(config.Config.Entrypoint[0], "/")]; !ok {
				t.Errorf("%s: the entry point %s is not there", i.name, config.Config.Entrypoint)
			}
		}
	}
}

// content is the text and the mode of each file of an image.
func content(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	all := map[string]string{}
	unpacked := mutate.Extract(img)
	defer unpacked.Close()
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		mode := h.FileInfo().Mode()
		switch {
		case mode.IsDir() && h.Mode == 0o1777:
			all[strings.TrimSuffix(h.Name, "/")] = "dir 1777"
		case !mode.IsDir():
			all[h.Name] = string(text) + map[int64]string{0o444: " 444", 0o555: " 555"}[h.Mode]
		}
	}
}

func TestRun_WritesAndPushes(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	o := built(t)
	o.push = strings.TrimPrefix(server.URL, "http://") + "/toolhaven"
	if err := run(o, "2026-01-02T03:04:05Z"); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(o.push + "/thv:v1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(o.out, "thv.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for r, found := tar.NewReader(bytes.NewReader(file)), map[string]bool{}; ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			for _, want := range []string{"oci-layout", "index.json", "blobs/sha256/" + digest.Hex} {
				if !found[want] {
					t.Errorf("%s is not in the layout: %v", want, found)
				}
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = true
	}
	o.ca = "missing"
	if err := run(o, ""); err == nil {
		t.Error("images without authorities were made")
	}
}
