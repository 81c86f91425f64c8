//go:build !linux

package process

// LocksIn finds nothing on this system.
func LocksIn(string) []Lock { return nil }

// LocksOf finds nothing on this system.
func LocksOf(int) []Lock { return nil }

// Listener finds nothing on this system.
func Listener(int) (pid int, name string) { return 0, "" }

// Frozen is not known on this system.
func Frozen(int) bool { return false }

// Exited is not known on this system.
func Exited(int) bool { return false }
