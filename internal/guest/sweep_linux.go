package guest

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sweepRounds bounds how often a sweep looks again for what was started while
// it looked.
const sweepRounds = 16

// sweep kills every process whose environment carries mark: a whole
// KEY=VALUE, or with a "-" at its end the start of one.
func sweep(mark string) {
	for range sweepRounds {
		if !sweepOnce(mark) {
			return
		}
	}
}

// sweepOnce reports whether it found something to kill.
func sweepOnce(mark string) bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return false // a container without /proc: its end sweeps
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false
	}
	found := false
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil || !carries(env, mark) {
			continue
		}
		if unix.Kill(pid, unix.SIGKILL) == nil {
			found = true
		}
	}
	return found
}

func carries(env []byte, mark string) bool {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if string(kv) == mark || mark[len(mark)-1] == '-' && bytes.HasPrefix(kv, []byte(mark)) {
			return true
		}
	}
	return false
}
