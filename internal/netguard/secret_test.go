package netguard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadSecret(t *testing.T) {
	for name, c := range map[string]struct{ content, want, fault string }{
		"plain":                 {"s3cret", "s3cret", ""},
		"a line break":          {"s3cret\n", "s3cret", ""},
		"several line breaks":   {"s3cret\r\n\n", "s3cret", ""},
		"spaces belong to it":   {" s3 cret \n", " s3 cret ", ""},
		"lines, as in PEM":      {"a\nb\n", "a\nb", ""},
		"empty":                 {"", "", "is empty"},
		"only white space":      {" \t\r\n", "", "is empty"},
		"as long as permitted":  {strings.Repeat("x", maxSecret), strings.Repeat("x", maxSecret), ""},
		"longer than permitted": {strings.Repeat("x", maxSecret+1), "", "too large"},
	} {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(path)
		if got != c.want || (c.fault == "") != (err == nil) {
			t.Errorf("%s: %.20q, %v", name, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadSecret(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file is no error")
	}
	if _, err := ReadSecret(t.TempDir()); err == nil {
		t.Error("a directory is no error")
	}
}
