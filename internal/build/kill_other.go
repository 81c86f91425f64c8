//go:build !unix

package build

import (
	"os/exec"
	"time"
)

// killTogether bounds how long a killed command's children are waited for.
func killTogether(cmd *exec.Cmd) { cmd.WaitDelay = 5 * time.Second }
