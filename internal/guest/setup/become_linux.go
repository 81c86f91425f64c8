package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// become changes this thread's user and removes its capabilities, also for what it
// executes: the bounding set is empty, so none can be gained (capabilities(7)).
func become(who *identity) error {
	// The server's standard error is a pipe that root owns. Engines change its owner
	// to the user, for programs that open /dev/stderr. That fails for some files.
	for fd := range 3 {
		_ = unix.Fchown(fd, who.uid, -1)
	}
	// The groups and the bounding set come first: the user may not change them.
	if err := unix.Setgroups(who.groups); err != nil {
		return fmt.Errorf("set its groups: %w", err)
	}
	if err := syscall.Setresgid(who.gid, who.gid, who.gid); err != nil {
		return fmt.Errorf("set its group %d: %w", who.gid, err)
	}
	if err := emptyBoundingSet(); err != nil {
		return fmt.Errorf("empty the bounding set: %w", err)
	}
	if err := syscall.Setresuid(who.uid, who.uid, who.uid); err != nil {
		return fmt.Errorf("set its number %d: %w", who.uid, err)
	}
	// If the user is root too, setresuid keeps the capabilities.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("clear the capabilities: %w", err)
	}
	return privileged()
}

func emptyBoundingSet() error {
	for capability := uintptr(0); ; capability++ {
		there, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && capability > 0 {
			return nil // the last one has been dropped
		}
		if err == nil && there != 0 {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
}

// privileged returns an error if this thread has a capability left, according to the
// kernel.
func privileged() error {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return err
	}
	for _, field := range []string{"CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"} {
		_, rest, found := bytes.Cut(status, []byte("\n"+field+":"))
		if !found && field == "CapAmb" {
			continue // before Linux 4.3
		}
		value, _, _ := bytes.Cut(rest, []byte("\n"))
		if !found || len(bytes.Trim(value, " \t0")) > 0 {
			return fmt.Errorf("the kernel reports %s %s", field, bytes.TrimSpace(value))
		}
	}
	return nil
}
