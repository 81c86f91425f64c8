package process

import "golang.org/x/sys/unix"

// socketPeer is the process at the other end of a connected Unix socket
// (SO_PEERCRED, unix(7)); 0 when the kernel does not report it.
func socketPeer(fd int) int {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}
