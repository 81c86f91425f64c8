package auditlog

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLog_FullDevice(t *testing.T) {
	l := open(t, Options{File: "/dev/full"})
	l.Record(slog.Int("n", 1))
	if err := l.Begin(); !errors.Is(err, ErrNotStored) {
		t.Error(err)
	}
}

// On a real file system that becomes full, every write that Begin lets through is
// recorded, whole.
func TestLog_FullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIPPED: a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "audit.log")
	l := open(t, Options{File: path})
	fill := func() {
		f, err := os.Create(filepath.Join(dir, "ballast"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	accepted, rejected := 0, 0
	for i := range 200 {
		if err := l.Begin(); err != nil {
			if !errors.Is(err, ErrNotStored) {
				t.Fatal(err)
			}
			rejected++
			continue
		}
		accepted++
		if i == 30 {
			fill() // between a write's begin and its record
		}
		l.Record(slog.Int("n", i), slog.String("reason", strings.Repeat("x", 10_000)))
	}
	if accepted < 31 || rejected == 0 {
		t.Errorf("%d accepted, %d rejected", accepted, rejected)
	}
	if got := len(strings.Fields(recorded(t, path))); got != accepted {
		t.Errorf("%d of %d accepted writes are recorded", got, accepted)
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}
