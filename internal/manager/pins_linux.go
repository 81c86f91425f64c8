package manager

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// pin opens what is at a path below dir, without a link on the way below dir. It is
// what the path meant then, whatever a server does to the path later.
func pin(dir, path string) (fd int, st unix.Stat_t, err error) {
	fd, err = unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, fmt.Errorf("%s: %w", dir, err)
	}
	at := dir
	for part := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(path, dir), "/"), "/") {
		at = filepath.Join(at, part)
		next, err := unix.Openat(fd, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		if err != nil {
			return -1, st, fmt.Errorf("%s: %w", at, err)
		}
		fd = next
		err = unix.Fstat(fd, &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = errLink
		}
		if err != nil {
			_ = unix.Close(fd)
			return -1, st, fmt.Errorf("%s %w", at, err)
		}
	}
	return fd, st, nil
}

// pinMounts pins the mounts that servers may move or replace: those below a directory that
// one of them may write to.
func pinMounts(mounts []workload.Mount, writable []string) (Pins, error) {
	var pins Pins
	for _, m := range mounts {
		outer := ""
		for _, dir := range writable {
			if below(dir, m.Host) && (outer == "" || len(dir) < len(outer)) {
				outer = dir
			}
		}
		if outer == "" {
			continue
		}
		fd, st, err := pin(outer, m.Host)
		if err != nil {
			pins.Close()
			return nil, fmt.Errorf("mount %s: %w", m.Host, err)
		}
		pins = append(pins, Pin{Target: m.Container, Device: st.Dev, Inode: st.Ino, fd: fd})
	}
	return pins, nil
}

// Close lets go of what is pinned.
func (p Pins) Close() {
	for _, one := range p {
		_ = unix.Close(one.fd)
	}
}
