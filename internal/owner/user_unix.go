//go:build unix

package owner

import (
	"fmt"
	"os"
	"syscall"
)

// ownerOf is the owner of a file, uid:gid.
func ownerOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid), nil
}
