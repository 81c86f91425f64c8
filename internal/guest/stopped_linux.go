package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// groupStopped reports whether a process of the process group is stopped by a signal
// (proc_pid_stat(5): state T, or t while it is traced).
func groupStopped(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// state, parent, group; the name before them may contain anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(group) && (fields[0][0] == 'T' || fields[0][0] == 't') {
			return true
		}
	}
	return false
}
