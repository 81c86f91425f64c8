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
	// sweepRounds bounds how often a sweep repeats, to find processes that were
	// started meanwhile.
	sweepRounds = 16
	// execWait is the pause before a sweep repeats because a process was inside
	// execve(2), where its environment cannot be read.
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

// sweepOnce kills the processes with mark that it finds. It reports whether there was
// one, and whether a process's environment could not be read in whole yet.
func sweepOnce(mark string) (killed, hidden bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false, false // a container without /proc: they end with it
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

// environment reads the environment that a process was started with. It is not whole if
// it is empty, or if the process executed another program between two reads: the file
// shows the memory that the process had when the file was opened, and ends when that
// memory is gone.
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

// mayGetEnvironment reports whether a process without an environment may be inside
// execve(2), which sets up its new memory. Zombies and kernel threads never have one.
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
