package owner

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// exposureTimeout bounds the look at a container's own address. A connection to
// it on this machine takes a fraction of a millisecond, or is not to be had.
const exposureTimeout = 300 * time.Millisecond

// exposed is the address at which a server can be reached from this machine past
// the gateway, "" when there is none.
//
// We publish no port, but where containers run on this machine's own kernel the
// engine gives the host an address on their bridge, so a server that listens on
// all of its container's addresses, and not only on the loopback one of MCP_HOST,
// accepts any local program there. The guest closes the container's network to those
// (see shut) unless the kernel does not allow it; a connection shows which is the case.
func (s *instance) exposed(ctx context.Context) string {
	if s == nil || s.spec.Transport == workload.Stdio {
		return ""
	}
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	c, err := s.engine.Inspect(ctx, id)
	if err != nil || c.IP == "" {
		return "" // no network, or gone
	}
	address := net.JoinHostPort(c.IP, strconv.Itoa(s.spec.TargetPort))
	ctx, cancel := context.WithTimeout(ctx, exposureTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	_ = conn.Close() // nothing was sent on it
	return address
}
