//go:build !linux

package guest

import "net"

// outgoingOf is not called: only Linux hands connections over.
func outgoingOf(*net.TCPConn) (outgoing, error) { return outgoing{}, errNotHanded }
