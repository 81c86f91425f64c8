//go:build !linux

package setup

import (
	"errors"

	"github.com/toolhaven/toolhaven/internal/guest"
)

// CheckMounts checks Linux containers only.
func CheckMounts([]guest.Mounted) error { return nil }

// Run sets up Linux containers only.
func Run(*guest.SetUp, []string) error {
	return errors.New("thv-guest runs inside Linux containers only")
}
