package workload

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const peerPIDSupported = true

// peerPID asks the kernel which process listens on a Unix socket (LOCAL_PEERPID,
// unix(4)). 0 when nobody listens.
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
		if v, err := unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID); err == nil {
			pid = v
		}
	})
	if err != nil {
		return 0
	}
	return pid
}
