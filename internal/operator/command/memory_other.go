//go:build !linux

package command

// dropProgram does nothing here. The operator runs on Linux.
func dropProgram() {}
