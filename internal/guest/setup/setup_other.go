//go:build !linux

package setup

import (
	"errors"

	"github.com/toolhaven/toolhaven/internal/guest"
)

// Run sets up Linux containers only.
func Run(*guest.SetUp, []string) error {
	return errors.New("thv-guest runs inside Linux containers only")
}
