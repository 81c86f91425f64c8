//go:build unix

package manager

import "syscall"

// detached gives a process a session of its own, so that the terminal's signals
// and its end do not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
