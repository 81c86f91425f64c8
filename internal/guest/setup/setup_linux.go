// Package setup prepares a container before any program of its image runs. The engine
// has started the guest as root with a few capabilities, which the server must not have
// (see SetUp in package container). The guest uses them to close the container's network
// (package guest/shut) and to become the image's user, and then executes itself without
// them. The container is then as if the engine had started it as that user without
// capabilities, except that a user without a name in /etc/passwd has been given one.
//
// The image's /etc/passwd and /etc/group are read. They are hostile input: they decide
// the user's number, groups and home directory, and nothing else.
package setup

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/guest/shut"
)

// Run sets up the container and executes the guest again, with argv, as the image's user
// and without privileges. It returns only on failure; then the caller must start nothing.
// A network that cannot be closed to the outside is not such a failure: it is reported on
// standard error, and the owner checks from outside whether the server can be reached. A
// network that is to be isolated and cannot be is one.
func Run(s *guest.SetUp, argv []string) error {
	if s.Isolate {
		if err := shut.Redirect(s.Open, guest.EgressPort, guest.DNSPort); err != nil {
			return fmt.Errorf("isolate the container's network: %w", err)
		}
		// Without it rejected datagrams are not recorded, and are rejected all the same.
		if fd, err := shut.Rejected(); err == nil {
			argv = append(argv, guest.RejectedArg(fd))
		}
	} else if s.Alone {
		// It cannot be reached.
	} else if err := shut.Install(s.Open); err != nil {
		fmt.Fprintf(os.Stderr, "thv-guest: the container's network cannot be closed to programs of the machine: %v\n", err)
	}
	who, err := lookup(os.DirFS("/"), s.User)
	if err != nil {
		return fmt.Errorf("become the image's user %q: %w", s.User, err)
	}
	env, home := os.Environ(), os.Getenv("HOME")
	if !s.Home {
		home = who.home
		env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }), "HOME="+who.home)
	}
	_ = enroll("/", home, who) // most servers run without an entry
	// Privileges are those of a thread; the other threads end when this one executes.
	runtime.LockOSThread()
	if err := become(who); err != nil {
		return fmt.Errorf("become the image's user %q without privileges: %w", s.User, err)
	}
	// As the user: without capabilities, root cannot look into every directory of the image.
	if err := CheckMounts(s.Mounts); err != nil {
		return err
	}
	if err := syscall.Exec(guest.Path, argv, env); err != nil {
		return fmt.Errorf("start %s as the image's user %q: %w", guest.Path, s.User, err)
	}
	return nil
}
