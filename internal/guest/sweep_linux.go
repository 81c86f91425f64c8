package guest

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepRounds bounds how often a sweep looks again for what was started while
	// it looked.
	sweepRounds = 16
	// execWait is what a process gets to finish an execve, in each of as many
	// looks as there are rounds: until then its environment cannot be read.
	execWait = 3 * time.Millisecond
)

// sweep kills every process whose environment carries mark: a whole
// KEY=VALUE, or with a "-" at its end the start of one.
func sweep(mark string) {
	for found, waited := 0, 0; found < sweepRounds && waited < sweepRounds; {
		switch killed, hidden := sweepOnce(mark); {
		case killed:
			found++
		case hidden:
			waited++
			<-time.After(execWait)
		default:
			return
		}
	}
}

// sweepOnce reports whether it found something to kill, and whether there was a
// process that did not show its whole environment yet.
func sweepOnce(mark string) (killed, hidden bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false, false // a container without /proc: its end sweeps
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, false
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		f, err := os.Open("/proc/" + name + "/environ")
		if err != nil {
			continue
		}
		env, whole := environment(f)
		f.Close()
		switch {
		case carries(env, mark):
			killed = unix.Kill(pid, unix.SIGKILL) == nil || killed
		case !whole:
			hidden = hidden || mayGetEnvironment(name)
		}
	}
	return killed, hidden
}

// environment reads what a process was started with. It is not whole where there is
// none, and where the process became another program between two reads: the file is
// of the memory that the process had when it was opened, and ends when that is gone.
func environment(f *os.File) (env []byte, whole bool) {
	env, err := io.ReadAll(f)
	if err != nil {
		return env, false
	}
	n, _ := f.ReadAt(make([]byte, 1), 0)
	return env, n == 1
}

// kernelThread is PF_KTHREAD of the flags in /proc/PID/stat.
const kernelThread = 0x00200000

// mayGetEnvironment: a process in the middle of execve(2) has an empty environment
// for as long as its new memory is being set up. Zombies and kernel threads never
// have one.
func mayGetEnvironment(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	// The name before it, in parentheses, may hold anything (proc_pid_stat(5)).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&kernelThread == 0 && fields[0][0] != 'Z' && fields[0][0] != 'X'
}

func carries(env []byte, mark string) bool {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if string(kv) == mark || mark[len(mark)-1] == '-' && bytes.HasPrefix(kv, []byte(mark)) {
			return true
		}
	}
	return false
}
