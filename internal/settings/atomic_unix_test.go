//go:build unix

package settings

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A write that the system stops half-way, as a full disk does: this test runs
// itself again under a limit on the size of files.
func TestAWriteThatStopsHalfWayKeepsTheOldFile(t *testing.T) {
	if path := os.Getenv("THV_TEST_WRITE_LIMITED"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}); err != nil {
			t.Fatal(err)
		}
		write := WriteAtomic
		if _, err := os.Stat(path); err != nil {
			write = WriteNew
		}
		err := write(path, []byte(strings.Repeat("new", 1<<20)), 0o600)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Fatalf("the write succeeded, or does not name the file: %v", err)
		}
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := WriteAtomic(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(dir, "new")} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAWriteThatStopsHalfWayKeepsTheOldFile$", "-test.v")
		cmd.Env = append(os.Environ(), "THV_TEST_WRITE_LIMITED="+path)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	entries, err := os.ReadDir(dir)
	if b, _ := os.ReadFile(path); err != nil || len(entries) != 1 || string(b) != "old" {
		t.Errorf("the file holds %q beside %v, %v", b, entries, err)
	}
}
