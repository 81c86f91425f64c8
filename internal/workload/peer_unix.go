//go:build linux || darwin

package workload

import (
	"net"
	"time"
)

const peerPIDSupported = true

// peerPID asks the kernel which process listens on a Unix socket. It works when
// that process is stopped. 0 when nobody listens.
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
	if err := raw.Control(func(fd uintptr) { pid = socketPeer(int(fd)) }); err != nil {
		return 0
	}
	return pid
}
