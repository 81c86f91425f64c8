//go:build unix

package build

import (
	"os/exec"
	"syscall"
	"time"
)

// killTogether makes the end of a command's context end its children as well:
// the go command runs compilers and git.
func killTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
}
