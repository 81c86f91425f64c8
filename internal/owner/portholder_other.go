//go:build !linux

package owner

// portHolder cannot name the holder on this system.
func portHolder(int) string { return "another program" }
