//go:build unix

package clientconfig

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a file of another user, which would become this user's when it is
// replaced. Root gives the file back.
func checkOwner(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && os.Geteuid() != 0 && int(st.Uid) != os.Geteuid() {
		return errors.New("it belongs to another user")
	}
	return nil
}

// keepOwner gives the file to the owner that it had.
func keepOwner(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}
