package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsAreKeptForTheUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	s := Open(dir)
	if err := s.Put("w", map[string]string{"A": "1", "B": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put("w", map[string]string{"A": "3"}); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{Ref("w", "A"): "3", Ref("w", "B"): "2"} {
		if got, err := s.Get(ref); err != nil || got != want {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "w.json")} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := s.Forget("w"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(Ref("w", "A")); !errors.Is(err, ErrNotFound) {
		t.Errorf("after Forget: %v", err)
	}
}

func TestAReferenceCannotLeaveTheStore(t *testing.T) {
	s := Open(t.TempDir())
	for _, ref := range []string{"", "A", "workload/../x/A", "workload/a/../../A", "workload/a/b/c", "workload//A", "workload/a..b/A"} {
		if _, err := s.Get(ref); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestADamagedFileIsNotQuoted(t *testing.T) {
	s := Open(t.TempDir())
	if err := os.WriteFile(s.file("w"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(Ref("w", "A")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestWhatLooksLikeASecret(t *testing.T) {
	for name, value := range map[string]string{"GITHUB_TOKEN": "x", "api_key": "x", "DB_PASSWORD": "", "X": "ghp_abc", "Y": "sk-abc", "OPENAI_API_KEY": "x", "Z": "eyJhbGciOi.eyJpc3Mi.x", "AUTHORIZATION": "x", "H": "Bearer abc"} {
		if !Looks(name, value) {
			t.Errorf("%s=%s does not look secret", name, value)
		}
	}
	for name, value := range map[string]string{"PATH": "/bin", "LOG_LEVEL": "debug", "KEYBOARD": "de", "PORT": "8080", "AUTHOR": "jo", "NOTE": "Basically"} {
		if Looks(name, value) {
			t.Errorf("%s=%s looks secret", name, value)
		}
	}
}
