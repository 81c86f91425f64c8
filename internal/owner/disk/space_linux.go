package disk

import "golang.org/x/sys/unix"

// freeSpace is the room on the file system of a directory, in bytes, for users without
// privileges; -1 if it is not visible.
func freeSpace(dir string) int64 {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil {
		return -1
	}
	return int64(st.Bavail) * st.Bsize
}
