package workload

import (
	"fmt"
	"net"
	"strconv"
)

// Port publishes a container port on an address of the host.
type Port struct {
	// Address is an IP address of the host; "" is the loopback address.
	Address   string `json:"address,omitempty"`
	Host      int    `json:"host"` // 0: any free port
	Container int    `json:"container"`
}

// Loopback reports whether only programs of the host can connect to the port.
func (p Port) Loopback() bool {
	return p.Address == "" || net.ParseIP(p.Address).IsLoopback()
}

// String is the port for a person.
func (p Port) String() string {
	host := strconv.Itoa(p.Host)
	switch {
	case p.Host == 0:
		host = "a free port"
		if p.Address != "" {
			host += " of " + p.Address
		}
	case p.Address != "":
		host = net.JoinHostPort(p.Address, host)
	}
	return fmt.Sprintf("%s to %d in the container", host, p.Container)
}
