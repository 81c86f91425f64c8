package manager

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// A pin is what was there when it was made, and is never reached through a link.
func TestPinMounts(t *testing.T) {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	for _, sub := range []string{"a/b", "other"} {
		if err := os.MkdirAll(filepath.Join(work, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(path string) []workload.Mount {
		return []workload.Mount{{Host: filepath.Join(dir, path), Container: "/m"}}
	}
	writable := []string{filepath.Join(work, "a"), work}
	info, err := os.Stat(filepath.Join(work, "a/b"))
	if err != nil {
		t.Fatal(err)
	}
	pins, err := pinMounts(mount("work/a/b"), writable)
	if err != nil || len(pins) != 1 || pins[0].Inode != info.Sys().(*syscall.Stat_t).Ino || pins[0].Target != "/m" {
		t.Fatalf("%+v, %v", pins, err)
	}
	pins.Close()
	for _, alone := range []string{"work", ".", "elsewhere"} {
		if pins, err := pinMounts(mount(alone), writable); err != nil || len(pins) > 0 {
			t.Errorf("%s, which no server can replace: %+v, %v", alone, pins, err)
		}
	}
	// The swap comes after checkLinks.
	if err := errors.Join(os.RemoveAll(filepath.Join(work, "a")), os.Symlink(dir, filepath.Join(work, "a"))); err != nil {
		t.Fatal(err)
	}
	for _, swapped := range []string{"work/a", "work/a/work", "work/missing"} {
		if pins, err := pinMounts(mount(swapped), writable); err == nil {
			t.Errorf("%s: %+v", swapped, pins)
		}
	}
}
