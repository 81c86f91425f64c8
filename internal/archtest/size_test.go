package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A package is small enough to be read whole (docs/architecture.md).
const (
	maxFiles = 25
	maxLines = 3000
)

// generated is the line of generated code (go help generate).
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestPackagesAreSmall counts neither tests nor generated code.
func TestPackagesAreSmall(t *testing.T) {
	noteSources(t)
	type size struct{ files, lines int }
	sizes := map[string]size{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil || generated.Match(content) {
			return err
		}
		dir, err := filepath.Rel("../..", filepath.Dir(path))
		if err != nil {
			return err
		}
		s := sizes[dir]
		sizes[dir] = size{s.files + 1, s.lines + bytes.Count(content, []byte("\n"))}
		return nil
	})
	if err != nil || len(sizes) < 10 {
		t.Fatalf("%d packages: %v", len(sizes), err)
	}
	// A program of parts that share one place to measure in, which is still to be divided.
	delete(sizes, "bench")
	for dir, s := range sizes {
		if s.files > maxFiles || s.lines > maxLines {
			t.Errorf("%s has %d files and %d lines, more than %d or %d: make packages of its parts", dir, s.files, s.lines, maxFiles, maxLines)
		}
	}
}
