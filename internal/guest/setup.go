package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// SetUp describes the first steps of the guest's program in a container that was
// created with SetUp (see package container). It starts as root there, closes the
// network to the outside, becomes the image's user and gives up every privilege.
// Package guest/setup carries it out.
type SetUp struct {
	// Open are the container's TCP ports that may be reached from outside.
	Open []uint16 `json:"open,omitempty"`
	// Alone marks a container without a network: nothing has to be closed.
	Alone bool `json:"alone,omitempty"`
	// Isolate also redirects the connections from inside to the guest (see [Line.Isolate]).
	// Where that fails, the guest exits.
	Isolate bool `json:"isolate,omitempty"`
	// User is the image's user: "", or a name or number, optionally with :group.
	User string `json:"user,omitempty"`
	// Mounts are what must be mounted. Where something else is, the guest exits.
	Mounts []Mounted `json:"mounts,omitempty"`
	// Plain marks a container that was created without SetUp: the mounts alone are checked.
	Plain bool `json:"plain,omitempty"`
	// Home is set if the container's configuration sets HOME. Otherwise HOME becomes
	// the user's home directory.
	Home bool `json:"home,omitempty"`
}

// Mounted is a file or directory of the host, by its numbers, at a path of the container.
type Mounted struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Arg encodes s as the guest's first argument.
func (s SetUp) Arg() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings
	}
	return string(text)
}

// ParseSetUp decodes what [SetUp.Arg] wrote from the first of the guest's arguments; s
// is nil if it is not there. rest are the other arguments.
func ParseSetUp(args []string) (s *SetUp, rest []string, err error) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "{") {
		return nil, args, nil
	}
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return nil, nil, fmt.Errorf("parse the set-up argument: %w", err)
	}
	return s, args[1:], nil
}

// rejectedPrefix begins the argument with the file descriptor that [RejectedArg] encodes.
const rejectedPrefix = "rejected="

// RejectedArg encodes the file descriptor of the kernel's record of rejected packets as the
// guest's last argument.
func RejectedArg(fd int) string { return rejectedPrefix + strconv.Itoa(fd) }

// ParseRejected opens what [RejectedArg] wrote as the last argument; file is nil if it is
// not there. rest are the other arguments.
func ParseRejected(args []string) (file *os.File, rest []string, err error) {
	if len(args) == 0 {
		return nil, args, nil
	}
	number, there := strings.CutPrefix(args[len(args)-1], rejectedPrefix)
	if !there {
		return nil, args, nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, nil, fmt.Errorf("parse the file descriptor: %w", err)
	}
	return inherited(fd), args[:len(args)-1], nil
}
