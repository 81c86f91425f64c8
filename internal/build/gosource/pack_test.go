package gosource

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/test/local"
)

func TestHowSourcesArePacked(t *testing.T) {
	dir := local.Tree(t, map[string]string{
		"m/go.mod": "module m", "m/go.sum": "", "m/README.md": "text", "m/.env": "secret", "m/node_modules/x/index.js": "", "m/default.pgo": "p",
		"m/.git/config": "secret", "m/sub/.git": "gitdir: x", "m/sub/a.go": "package a", "m/sub/a_amd64.s": "", "m/sub/notes.txt": "",
		"m/other/go.mod": "module m/other", "m/other/x.go": "", "m/named/go.mod": "module named",
		"m/web/web.go":   "package web\n\n//go:embed dist all:files/*.txt one\n//go:embed \"a b/c\"\nvar _ string\n",
		"m/web/dist/a/b": "1", "m/web/files/.hidden.txt": "2", "m/web/one": "3", "m/web/two": "", "m/web/a b/c": "4",
		"m/vendor/modules.txt": "# v", "m/vendor/v/LICENSE": "", "m/vendor/v/v.go": "package v",
		"m/data@": "../data", "m/linked.go@": "../data/text", "m/nothing.go@": "gone", "data/text": "package m",
	})
	pipe, w := io.Pipe()
	go func() {
		w.CloseWithError(Pack(w, []string{filepath.Join(dir, "m"), filepath.Join(dir, "m", "named")}))
	}()
	got := map[string]string{}
	for tr := tar.NewReader(pipe); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Mode&0o444 != 0o444 {
			t.Errorf("%s: owner %d, mode %o", h.Name, h.Uid, h.Mode)
		}
		name := strings.TrimPrefix("/"+h.Name, slashed(dir)+"/m/")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = h.Linkname + string(content)
	}
	want := map[string]string{
		"": "", "go.mod": "module m", "go.sum": "", "default.pgo": "p", "sub/": "", "sub/a.go": "package a", "sub/a_amd64.s": "", "named/": "", "named/go.mod": "module named",
		"web/": "", "web/dist/": "", "web/dist/a/": "", "web/dist/a/b": "1", "web/files/": "", "web/files/.hidden.txt": "2", "web/one": "3", "web/a b/": "", "web/a b/c": "4",
		"vendor/": "", "vendor/modules.txt": "# v", "vendor/v/": "", "vendor/v/v.go": "package v", "data": "../data", "linked.go": "package m",
	}
	// A quoted pattern is not read exactly, so that all of its directory comes.
	want["web/two"], want["web/web.go"] = "", got["web/web.go"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if roots := outermost([]string{dir, filepath.Join(dir, "m"), dir + "x"}); !slices.Equal(roots, []string{dir}) {
		t.Errorf("outermost: %v", roots)
	}
}

func TestWhatAnEmbedPatternMayName(t *testing.T) {
	for pattern, want := range map[string]string{
		"a/b": "a/b", "all:a": "a", "*": "", "a/*.txt": "a/", "a/b[0-9]/c": "a/", "a?": "", "`a/b": "a/", "c`": "", `"a/b"`: "a/", "all:a/*": "a/",
	} {
		if got := filepath.ToSlash(embedPrefix(pattern)); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
