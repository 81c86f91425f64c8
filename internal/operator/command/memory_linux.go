package command

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram unmaps the pages of the program's file: most of them were used by the start alone,
// which registers the types of all APIs. They stay in the system's cache as long as it has room,
// from where those that are used again come at once.
func dropProgram() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	program, err := os.Executable()
	if err != nil {
		return
	}
	for _, m := range fileMappings(bufio.NewScanner(f), program) {
		// The address is of a mapping of this process, which lasts as long as it. A failure
		// leaves the pages where they are.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// fileMappings are the mappings of a file that have no page of their own: what they map can be
// read again. lines are those of /proc/self/smaps (proc_pid_smaps(5)).
func fileMappings(lines *bufio.Scanner, file string) []mapping {
	var all []mapping
	var current mapping
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"):
			current = mapping{}
			if len(fields) == 6 && fields[5] == file && !strings.Contains(fields[1], "w") {
				current = addresses(fields[0])
			}
		case len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && current.to > current.from:
			all = append(all, current)
		}
	}
	return all
}

// addresses reads "from-to", in hexadecimal.
func addresses(text string) mapping {
	from, to, _ := strings.Cut(text, "-")
	begin, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return mapping{}
	}
	end, err := strconv.ParseUint(to, 16, 64)
	if err != nil {
		return mapping{}
	}
	return mapping{uintptr(begin), uintptr(end)}
}
