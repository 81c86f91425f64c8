//go:build !linux

package owner

// kernelRelease is "": elsewhere containers run on another kernel.
func kernelRelease() string { return "" }

// freeSpace is -1: elsewhere engines run in a machine of their own.
func freeSpace(string) int64 { return -1 }
