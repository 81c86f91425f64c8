//go:build unix

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Freeze stops a process and waits until it has stopped: the signal is delivered
// later than kill returns.
func Freeze(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop process %d: %v", pid, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		// proc(5): pid (comm) state ...; other systems have no such file.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && rest[0] == 'T' {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop: %s", pid, stat)
		}
	}
}
