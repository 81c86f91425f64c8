package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func TestWrite_FullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("SKIPPED: a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	st := openAt(t, filepath.Join(dir, "registry.db"))
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	insert := func(n int) error {
		_, err := st.Insert(t.Context(), store.Version{
			Head:     store.Head{Source: "s", Name: fmt.Sprintf("a/%d", n), Version: "1", Status: "active"},
			Document: bytes.Repeat([]byte("x"), 100<<10),
		})
		return err
	}
	n, err := 0, error(nil)
	for ; err == nil && n < 100; n++ {
		err = insert(n)
	}
	if !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("after %d documents: %v", n, err)
	}
	if err := st.Ping(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("ping: %v", err)
	}
	if _, err := st.Revisions(t.Context(), []string{"s"}); err != nil {
		t.Errorf("reading: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := st.Ping(t.Context()); err != nil {
		t.Errorf("ping when there is room: %v", err)
	}
	if err := insert(n); err != nil {
		t.Errorf("insert when there is room: %v", err)
	}
}
