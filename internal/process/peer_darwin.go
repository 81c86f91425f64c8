package process

import "golang.org/x/sys/unix"

// socketPeer is the process at the other end of a connected Unix socket
// (LOCAL_PEERPID, unix(4)); 0 when the kernel does not report it.
func socketPeer(fd int) int {
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return 0
	}
	return pid
}
