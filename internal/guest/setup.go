package guest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// SetUp is what the guest's program does first in a container that was created
// with SetUp (see package container), where it starts as root: it shuts the
// network, becomes the user that the image names, and gives up every privilege.
// Package guest/setup does it.
type SetUp struct {
	// Open are the container's TCP ports that are reached from outside.
	Open []uint16 `json:"open,omitempty"`
	// Alone is a container on no network: there is nothing to shut.
	Alone bool `json:"alone,omitempty"`
	// User is the image's: "", or a name or number, and :group after it.
	User string `json:"user,omitempty"`
	// Home tells that the container's configuration sets HOME. Otherwise HOME is
	// the user's home directory.
	Home bool `json:"home,omitempty"`
}

// Arg is the guest's first argument that asks for this.
func (s SetUp) Arg() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings
	}
	return string(text)
}

// ParseSetUp looks for what [SetUp.Arg] wrote at the head of the guest's
// arguments; nil when it is not there. The other arguments are rest.
func ParseSetUp(args []string) (s *SetUp, rest []string, err error) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "{") {
		return nil, args, nil
	}
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return nil, nil, fmt.Errorf("read what is to be set up: %w", err)
	}
	return s, args[1:], nil
}
