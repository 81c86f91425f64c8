// Package setup makes a container ready before anything of its image runs. The
// engine has started the guest as root with a few capabilities, which the server
// is not to have (see SetUp in package container). With them it shuts the
// container's network (package guest/shut) and becomes the image's user; then it
// starts itself anew without any of them. From inside, the container is then what
// it would be had the engine started it as that user with no capabilities at all;
// only that a user who is a mere number has a name.
//
// Nothing of the image runs meanwhile, but its files are read (/etc/passwd and
// /etc/group), and what they say is not believed beyond who the user is.
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

// Run sets up the container and starts the program anew, with argv, as the image's
// user and without privileges. It returns only when it fails, and then nothing may
// be started. That the network cannot be shut is no such failure: it is said on
// standard error, and who can reach the server is found out from outside.
func Run(s *guest.SetUp, argv []string) error {
	if s.Alone {
		// There is no way in.
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
	_ = enroll("/", home, who) // a server that needs no name runs without
	// Privileges belong to threads; the others end when this one executes.
	runtime.LockOSThread()
	if err := become(who); err != nil {
		return fmt.Errorf("become the image's user %q without privileges: %w", s.User, err)
	}
	if err := syscall.Exec(guest.Path, argv, env); err != nil {
		return fmt.Errorf("start %s as the image's user %q: %w", guest.Path, s.User, err)
	}
	return nil
}
