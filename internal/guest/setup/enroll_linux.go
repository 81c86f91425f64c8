package setup

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// enroll adds an entry to /etc/passwd if the user's number has none: some programs (ssh,
// git, programs on Node.js) look up their user and fail without. It changes only that
// file in the container's own layer: it follows no link and enters no mount, which would
// be the user's own file on the host.
func enroll(root, home string, who *identity) error {
	listed := false
	err := entries(os.DirFS(root), "etc/passwd", 3, func(entry []string) bool {
		listed = id(entry[2]) == who.uid
		return !listed
	})
	if err != nil || listed {
		return err
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, "etc/passwd", &unix.OpenHow{
		Flags:   unix.O_RDWR | unix.O_APPEND | unix.O_NONBLOCK | unix.O_CLOEXEC, // O_NONBLOCK: the open of a pipe would block
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "/etc/passwd")
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > maxAccounts: // entries has read up to there
		return fmt.Errorf("%s is not a regular file, or too large", file.Name())
	}
	if home == "" || strings.ContainsAny(home, ":\n\x00") {
		home = "/" // passwd(5) cannot hold it
	}
	line := fmt.Sprintf("app:x:%d:%d:app:%s:/bin/sh\n", who.uid, who.gid, home)
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, max(0, info.Size()-1)); err == nil && last[0] != '\n' {
		line = "\n" + line
	} else if err != nil && err != io.EOF {
		return err
	}
	_, err = file.WriteString(line)
	return err
}
