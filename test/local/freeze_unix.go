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

// Freeze is [Suspend] that fails the test.
func Freeze(t testing.TB, pid int) {
	t.Helper()
	if err := Suspend(pid); err != nil {
		t.Fatal(err)
	}
}

// Suspend sends SIGSTOP to a process and waits until all of it has stopped: the signal
// is delivered later than kill(2) returns, and to one thread after the other.
func Suspend(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		stopped, err := hasStopped(pid)
		if err != nil || stopped {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not stop", pid)
		}
	}
}

// hasStopped reports whether all threads of a process have the state T (proc(5),
// /proc/PID/task/TID/stat: pid (comm) state ...). On other systems, which have no such
// file, it is true.
func hasStopped(pid int) (bool, error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread.Name()))
		if err != nil {
			continue // the thread has ended
		}
		// The name in parentheses may hold anything.
		i := strings.LastIndex(string(stat), ") ")
		if i < 0 || stat[i+2] != 'T' {
			return false, nil
		}
	}
	return true, nil
}
