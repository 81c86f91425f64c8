//go:build linux || darwin

package process

import (
	"context"
	"net"
	"time"
)

// NamesPeers is whether the kernel reports the process behind a Unix socket.
const NamesPeers = true

// Peer is the process that listens on a Unix socket, as the kernel reports it, also
// when that process is stopped by a signal. 0 when none listens.
func Peer(path string) int {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", path)
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
