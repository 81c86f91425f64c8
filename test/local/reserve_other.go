//go:build !unix

package local

// reserve does nothing: two processes may get the same port.
func reserve(int) error { return nil }
