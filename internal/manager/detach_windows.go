package manager

import "syscall"

// detached gives a process a group of its own and no console, so that Ctrl-C
// and the console's end do not reach it.
func detached() *syscall.SysProcAttr {
	const detachedProcess = 0x00000008
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess, HideWindow: true}
}
