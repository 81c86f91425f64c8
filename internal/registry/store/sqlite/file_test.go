package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlstore"
	"github.com/toolhaven/toolhaven/internal/registry/store/storetest"
)

func TestOpen_NewFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "one", "two")
	path := filepath.Join(dir, "odd ?#%41;ü name.db")
	s := openAt(t, path)
	if _, err := s.Revisions(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{filepath.Dir(dir), dir} {
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", made, info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(e.Name(), filepath.Base(path)) || info.Mode() != 0o600 {
			t.Errorf("%s has the mode %s", e.Name(), info.Mode())
		}
	}
	if len(entries) != 4 { // with -wal, -shm and .lock
		t.Errorf("there are %v", entries)
	}
}

func TestOpen_ExistingFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("the mode is %s, %v", info.Mode(), err)
	}
}

func TestOpen_NotADatabase(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	content := bytes.Repeat([]byte("this is no database\n"), 100)
	if err := os.WriteFile(text, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", dir, text, filepath.Join(text, "below"), "a\x00b"} {
		s, err := Open(t.Context(), path)
		if err == nil {
			s.Close()
			t.Errorf("%q is opened", path)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if got, err := os.ReadFile(text); err != nil || !bytes.Equal(got, content) {
		t.Errorf("a file of text was altered: %v", err)
	}
}

func TestOpen_NewerDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	openAt(t, path).Close()
	db := raw(t, path)
	if _, err := db.Exec("INSERT INTO registry_migration (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path)
	if !errors.Is(err, store.ErrNewer) {
		t.Fatalf("it ends with %v", err)
	}
	for _, part := range []string{path, "version 99", "up to 3"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := connect(path, "immediate", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestOpen_Concurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			s, err := Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Revisions(t.Context(), []string{"a"}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestOpen_Again(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	first := openAt(t, path)
	want, err := first.Revisions(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	got, err := openAt(t, path).Revisions(t.Context(), []string{"a"})
	if err != nil || got[0] != want[0] {
		t.Errorf("%v became %v: %v", want, got, err)
	}
}

// Another process in a long transaction: readers do not notice, a writer waits,
// and waits no longer than its context.
func TestWrite_WaitsForProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	s := openAt(t, path)
	if _, err := s.Revisions(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	other, err := raw(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revisions(t.Context(), []string{"a"}); err != nil {
		t.Errorf("a reader waits for a writer: %v", err)
	}
	if late, err := Open(t.Context(), path); err != nil {
		t.Errorf("opening waits for a writer: %v", err)
	} else {
		late.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = s.Acquire(ctx, "a", "me", time.Minute)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a writer that had no time to wait ended with %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a context of 300 ms ended a call after %s", took)
	}
	reader, writer := raw(t, path), raw(t, path)
	impatient := sqlstore.New(reader, writer, dialect(), sqlstore.Limits{Short: 2 * time.Second, Long: 4 * time.Second})
	_, err = impatient.Acquire(t.Context(), "a", "me", time.Minute)
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a writer that waited for as long as it may ended with %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), "a", "me", time.Minute)
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("a writer does not wait: %v", err)
	case <-time.After(2 * lockWait):
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a writer that waited ended with %v", err)
	}
}

func TestMigrate_Clock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	storetest.Clockless(t, func() store.Store { return openAt(t, path) }, func(statement string) {
		if _, err := raw(t, path).Exec(statement); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMigrate_SearchText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	storetest.Untitled(t, func() store.Store { return openAt(t, path) }, func(statement string) {
		if _, err := raw(t, path).Exec(statement); err != nil {
			t.Fatal(err)
		}
	})
}
