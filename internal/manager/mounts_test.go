package manager

import (
	"os"
	"path/filepath"
	"testing"
)

// A server that may write to work can replace work/sub by a link to anything.
func TestLinkBelow(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"work/sub/deep", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"work/link": "/", "work/sub/link": "deep", "outside": "work"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"work": "", "work/sub": "", "work/sub/deep": "", "work/missing": "", "other": "", "outside": "",
		"work/link": "work/link", "work/link/etc": "work/link", "work/sub/link/x": "work/sub/link", "works/link": "",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := linkBelow(filepath.Join(dir, "work"), filepath.Join(dir, path)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := linkBelow("/", filepath.Join(dir, "work/link")); got == "" {
		t.Error("all of the machine is writable, and the link is not found")
	}
}
