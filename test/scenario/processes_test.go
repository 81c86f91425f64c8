//go:build integration

package scenario

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes lists the running thv processes of a place, by their environment.
func (p *place) processes() []int {
	var found []int
	want := "XDG_STATE_HOME=" + p.state
	for _, pid := range allProcesses() {
		env, err := os.ReadFile(procFile(pid, "environ"))
		if err != nil {
			continue // ended meanwhile, or of another user
		}
		exe, _ := os.Readlink(procFile(pid, "exe"))
		if filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != filepath.Base(thvPath()) {
			continue
		}
		for v := range strings.SplitSeq(string(env), "\x00") {
			if v == want {
				found = append(found, pid)
			}
		}
	}
	return found
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

func allProcesses() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// describe is a process's command line, for a message.
func describe(pid int) string {
	line, _ := os.ReadFile(procFile(pid, "cmdline"))
	return strconv.Itoa(pid) + " " + strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
}

// stat reads a process's state and parent from /proc/PID/stat (proc(5)).
func stat(pid int) (state byte, parent int, ok bool) {
	b, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return 0, 0, false
	}
	// The name in parentheses may hold anything; what follows the last ")" is
	// in order.
	_, rest, found := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0][0], parent, err == nil
}

// below lists the processes that descend from root, root included, and how many
// of them are zombies.
func below(root int) (pids []int, zombies int) {
	children := map[int][]int{}
	states := map[int]byte{}
	for _, pid := range allProcesses() {
		if state, parent, ok := stat(pid); ok {
			children[parent] = append(children[parent], pid)
			states[pid] = state
		}
	}
	if _, ok := states[root]; !ok {
		return nil, 0
	}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		pids = append(pids, queue[0])
		if states[queue[0]] == 'Z' {
			zombies++
		}
		queue = append(queue, children[queue[0]]...)
	}
	return pids, zombies
}
