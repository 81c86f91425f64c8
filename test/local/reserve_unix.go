//go:build unix

package local

import "syscall"

// reserve reserves a port for this process among the callers of FreePort. It binds the UDP
// port of that number, which blocks no TCP listener and is released with the process.
func reserve(port int) error {
	syscall.ForkLock.RLock() // no child must inherit it
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
