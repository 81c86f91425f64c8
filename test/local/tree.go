package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree writes files below a new directory, which it returns. A name that ends in @ is a link
// to what its text is.
func Tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, strings.TrimSuffix(name, "@"))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "@") {
			err = os.Symlink(text, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
