// Package process reads what the operating system records about other processes:
// which one listens on a TCP port or a Unix socket, and which ones hold file locks. A lock is found
// even after its file was deleted, so a gateway whose state directory is gone can
// still be identified. Only Linux records this (proc(5)), and macOS the process behind a Unix socket; elsewhere
// nothing is found.
package process

import "path/filepath"

// A Lock is an exclusive flock(2) lock that a process holds.
type Lock struct {
	PID int
	// Path is where the file is, or was before it was deleted.
	Path    string
	Deleted bool
}

// resolve is path without symbolic links, also if its last elements do not exist.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(resolve(dir), filepath.Base(path))
}
