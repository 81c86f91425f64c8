//go:build !windows

package source

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

func TestFile_Status(t *testing.T) {
	meta := func(inner string) string {
		return `{"name":"a/b","version":"1","packages":[{"registryType":"oci","identifier":"img"}],"_meta":{"io.modelcontextprotocol.registry/publisher-provided":` + inner + `}}`
	}
	for document, want := range map[string]string{
		`{"name":"a/b","version":"1"}`:                                                        "active",
		`{"name":"a/b","version":"1","status":"deprecated"}`:                                  "deprecated",
		`{"name":"a/b","version":"1","status":"deleted"}`:                                     "deleted",
		`{"name":"a/b","version":"1","status":"haunted"}`:                                     "left out",
		`{"name":"a/b","version":"1","status":7}`:                                             "left out",
		meta(`{"io.github.stacklok":{"img":{"status":"Deprecated"}}}`):                        "deprecated",
		meta(`{"io.github.stacklok":{"img":{"status":"Active"}}}`):                            "active",
		meta(`{"a":[1],"b":"x","io.github.stacklok":{"a":{},"img":{"status":"deprecated"}}}`): "deprecated",
		meta(`"free to be anything"`):                                                         "active",
	} {
		for form, file := range map[string]string{"list": "[" + document + "]", "wrapped": registryFile(document)} {
			got := "left out"
			fetched, err := fromFile([]byte(file), "")
			if len(fetched.Entries) == 1 {
				got = fetched.Entries[0].Status
			}
			if err != nil || got != want || len(fetched.Entries)+fetched.LeftOut.Malformed != 1 {
				t.Errorf("%s %s: %s, %v", form, document, got, err)
			}
		}
	}
}

func TestFile_RegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxFile+1); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(closed, []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "not a regular file", dir: "not a regular file", huge: "too large", filepath.Join(dir, "none"): "does not exist",
		closed: "permission denied",
	} {
		if path == closed && os.Getuid() == 0 {
			continue // nothing is closed to root
		}
		_, err := fetch(t, config.Source{File: &config.File{Path: path}}, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestFile_Unchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	writeFile(t, path, registryFile(server("io.example/a", "1.0.0", "x")))
	cfg := config.Source{File: &config.File{Path: path}}
	first, err := fetch(t, cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := fetch(t, cfg, first.Digest)
	if err != nil || !again.Unchanged || again.Digest != first.Digest || again.Entries != nil {
		t.Errorf("%+v, %v", again, err)
	}
}
