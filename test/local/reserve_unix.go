//go:build unix

package local

import "syscall"

// reserve makes a port this process's own, among those that ask FreePort. A socket for
// datagrams stands for it, which is in nobody's way, and which ends with the process.
func reserve(port int) error {
	syscall.ForkLock.RLock() // no child is to have it too
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		_ = syscall.Close(fd)
		return err
	}
	return nil
}
