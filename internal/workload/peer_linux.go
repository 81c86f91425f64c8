package workload

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const peerPIDSupported = true

// peerPID asks the kernel which process listens on a Unix socket (SO_PEERCRED,
// unix(7)). It works when that process is stopped. 0 when nobody listens.
func peerPID(path string) int {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil {
		return 0
	}
	return pid
}
