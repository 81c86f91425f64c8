//go:build !linux

package manager

import "github.com/toolhaven/toolhaven/internal/workload"

// pinMounts pins nothing: elsewhere engines run in a machine of their own, whose numbers of
// devices and inodes are others.
func pinMounts([]workload.Mount, []string) (Pins, error) { return nil, nil }

// Close does nothing.
func (Pins) Close() {}
