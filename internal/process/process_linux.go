package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LocksIn lists the exclusive locks on files directly in dir, which may be gone, as
// far as the kernel shows other processes to this user.
func LocksIn(dir string) []Lock {
	dir = resolve(dir)
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []Lock
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		found = append(found, locks(pid, func(path string) bool { return filepath.Dir(path) == dir })...)
	}
	return found
}

// LocksOf lists the exclusive locks that a process holds.
func LocksOf(pid int) []Lock { return locks(pid, func(string) bool { return true }) }

// locks are those of a process on files whose path matches. A descriptor's link names
// the file (proc(5), /proc/PID/fd), and its fdinfo the locks taken through it.
func locks(pid int, match func(path string) bool) []Lock {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	descriptors, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return nil // another user's, or it has ended
	}
	var found []Lock
	for _, fd := range descriptors {
		link, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err != nil || !strings.HasPrefix(link, "/") {
			continue
		}
		path, deleted := strings.CutSuffix(link, " (deleted)")
		if !match(path) {
			continue
		}
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", fd.Name()))
		if err == nil && exclusive(info) {
			found = append(found, Lock{PID: pid, Path: path, Deleted: deleted})
		}
	}
	return found
}

// exclusive reports whether fdinfo has a line such as
// "lock:	1: FLOCK  ADVISORY  WRITE 3024 fe:00:9997940 0 EOF".
func exclusive(fdinfo []byte) bool {
	for line := range bytes.Lines(fdinfo) {
		f := strings.Fields(string(line))
		if len(f) > 4 && f[0] == "lock:" && f[2] == "FLOCK" && f[4] == "WRITE" {
			return true
		}
	}
	return false
}

// Listener is the process that listens on a TCP port and the name of its program. The
// PID is 0 when there is none, or the kernel does not show it to this user.
func Listener(port int) (pid int, name string) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			// sl local_address rem_address st ... inode; state 0A is LISTEN
			c := strings.Fields(lines.Text())
			if len(c) > 9 && c[3] == "0A" && strings.HasSuffix(c[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+c[9]+"]"] = true
			}
		}
		f.Close()
	}
	if len(sockets) == 0 {
		return 0, ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && sockets[target] {
			dir := strings.Split(link, "/")[2]
			pid, _ := strconv.Atoi(dir)
			comm, _ := os.ReadFile("/proc/" + dir + "/comm")
			return pid, strings.TrimSpace(string(comm))
		}
	}
	return 0, ""
}

// Frozen reports whether a process is stopped by a signal (proc(5), state T), so that
// it handles no other than SIGKILL and SIGCONT.
func Frozen(pid int) bool { return state(pid) == 'T' }

// Exited reports whether a process has ended, with all its threads: its files are
// closed then, also when its parent has not waited for it yet (state Z).
func Exited(pid int) bool {
	switch state(pid) {
	case 0:
		return true
	case 'Z':
		threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
		return err != nil || len(threads) <= 1
	}
	return false
}

// state is the process's state letter, 0 when there is no such process.
func state(pid int) byte {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// The name before it is in parentheses and may hold any character.
	rest := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
	if len(rest) == 0 {
		return 0
	}
	return rest[0]
}
