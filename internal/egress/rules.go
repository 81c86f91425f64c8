// Package egress decides what the server in an isolated container may connect to, and
// makes its connections.
//
// The guest sends every TCP connection and every DNS question of the container to the
// process that owns the workload (guest.Line.Isolate). A [Gateway] answers questions for
// allowed names only and remembers the addresses that it answered with. It then dials an
// address if an allowed name was answered with it, or if the rules have the address. On a
// connection to an allowed name, the name of a TLS handshake and the Host of plain HTTP
// must be such a name too. A [Log] has what was connected and what was refused.
//
// All of it is hostile input: names, messages, handshakes and requests. What cannot be
// read is refused.
//
// Two things cannot be seen from here: which host a request within TLS names (domain
// fronting, HTTP/2 connection reuse), and what an allowed host does with what it receives.
package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Config is what a server may connect to. The zero value allows nothing.
type Config struct {
	// AllowAll allows every name and every public address.
	AllowAll bool
	// Hosts are names and addresses: "a.example" is that name, ".a.example" the name and
	// every name below it, "*.a.example" every name below it. An IP address or a prefix
	// such as 10.1.0.0/16 is allowed as an address, also where it is not a public one.
	Hosts []string
	// Ports are the allowed ports; empty is all.
	Ports []int
	// Gateway is the address by which the container engine's containers reach the
	// machine; the zero value is none. It is closed, also to Hosts that contain it, unless
	// AllowGateway is set, which opens it on all ports.
	Gateway      netip.Addr
	AllowGateway bool
	// GatewayAlias is another address that containers have for the gateway's names, in
	// their file of hosts. AllowGateway opens it too.
	GatewayAlias netip.Addr
	// GatewayTarget is dialed instead of Gateway if it is set: the engine may run in a
	// virtual machine.
	GatewayTarget netip.Addr
}

// gatewayNames are the names of the engine's gateway in containers of Docker and Podman.
var gatewayNames = []string{"host.docker.internal", "gateway.docker.internal", "host.containers.internal"}

// rules is a Config that has been parsed.
type rules struct {
	cfg      Config
	names    map[string]bool
	suffixes []string // ".a.example": names below it
	prefixes []netip.Prefix
}

// minBits are the shortest prefixes that are accepted: a shorter one covers addresses of
// many kinds.
const (
	minBits4 = 8
	minBits6 = 32
)

// Validate returns everything that is wrong with c.
func (c *Config) Validate() error {
	_, err := c.parse()
	return err
}

func (c *Config) parse() (*rules, error) {
	r := &rules{cfg: *c, names: map[string]bool{}}
	var errs []error
	for _, host := range c.Hosts {
		if err := r.add(host); err != nil {
			errs = append(errs, fmt.Errorf("host %.80q: %w", host, err))
		}
	}
	for _, port := range c.Ports {
		if port < 1 || port > 65535 {
			errs = append(errs, fmt.Errorf("port %d: ports are 1 to 65535", port))
		}
	}
	return r, errors.Join(errs...)
}

func (r *rules) add(host string) error {
	if strings.Contains(host, "/") {
		prefix, err := netip.ParsePrefix(host)
		switch {
		case err != nil:
			return errors.New("not a prefix such as 10.1.0.0/16")
		case prefix != prefix.Masked():
			return fmt.Errorf("bits are set after the prefix; write %s", prefix.Masked())
		case prefix.Addr().Is4In6(), prefix.Bits() < minBits4, prefix.Addr().Is6() && prefix.Bits() < minBits6:
			return fmt.Errorf("the prefix is too short; the shortest are /%d, and /%d of IPv6", minBits4, minBits6)
		}
		r.prefixes = append(r.prefixes, prefix)
		return nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addr = addr.Unmap()
		if addr.Zone() != "" || addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() {
			return errors.New("an address of this kind cannot be connected to")
		}
		r.prefixes = append(r.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	name, below := host, false
	for _, begin := range []string{"*.", "."} {
		if rest, found := strings.CutPrefix(host, begin); found {
			name, below = rest, true
			break
		}
	}
	name = canonical(name)
	if !validName(name) {
		return errors.New("not a name, such as a.example, .a.example or *.a.example, and not an address")
	}
	if below {
		r.suffixes = append(r.suffixes, "."+name)
	}
	if !strings.HasPrefix(host, "*") {
		r.names[name] = true
	}
	return nil
}

// canonical is a name in lower case without the root's dot (RFC 4343, RFC 1035 section
// 2.3.1).
func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// validName reports whether a canonical name is a host name (RFC 1035 section 2.3.4, RFC
// 1123 section 2.1), where underscores, which are in use, are permitted. A name that ends
// like an IPv4 address is none (WHATWG URL, ends in a number).
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

func isGatewayName(name string) bool { return slices.Contains(gatewayNames, name) }

// name reports whether a canonical name may be looked up and connected to.
func (r *rules) name(name string) bool {
	switch {
	case !validName(name):
		return false
	case isGatewayName(name):
		return r.cfg.AllowGateway && r.cfg.Gateway.IsValid()
	case r.cfg.AllowAll, r.names[name]:
		return true
	}
	return slices.ContainsFunc(r.suffixes, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// Reasons of refusals.
var (
	errName     = errors.New("the name is not allowed")
	errAddress  = errors.New("no allowed name has this address")
	errPort     = errors.New("the port is not allowed")
	errDatagram = errors.New("only TCP, and UDP for DNS, leave the container")
	errPrivate  = errors.New("the address is not a public one")
	errMachine  = errors.New("the address is one of this machine")
	errGateway  = errors.New("the engine's gateway is closed; --allow-docker-gateway opens it")
	errLoopback = errors.New("loopback addresses of this machine are closed")
)

// target decides whether an address may be dialed, for a name that is allowed or for the
// address itself, and on that port. listed reports that the rules have the address, or
// all: there is no name to check then.
func (r *rules) target(to netip.AddrPort, named bool) (listed bool, err error) {
	listed, err = r.address(to.Addr(), named)
	if err != nil {
		return false, err
	}
	if len(r.cfg.Ports) > 0 && !slices.Contains(r.cfg.Ports, int(to.Port())) && !r.gateway(to.Addr()) {
		return false, errPort
	}
	return listed, nil
}

// gateway reports whether an address is the engine's gateway, and open.
func (r *rules) gateway(addr netip.Addr) bool {
	return r.cfg.AllowGateway && addr.IsValid() && (addr == r.cfg.Gateway || addr == r.cfg.GatewayAlias)
}

// address is target without the port.
func (r *rules) address(addr netip.Addr, named bool) (listed bool, err error) {
	exact := slices.Contains(r.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
	inPrefix := slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
	switch {
	case r.gateway(addr):
		return true, nil
	case addr == r.cfg.Gateway:
		return false, errGateway
	case addr.IsLoopback(), addr.IsUnspecified(), addr.IsMulticast():
		return false, errLoopback
	case !inPrefix && !named && !r.cfg.AllowAll:
		return false, errAddress
	case exact:
		return true, nil
	case ofThisMachine(addr):
		return false, errMachine
	case inPrefix && !addr.IsLinkLocalUnicast():
		return true, nil
	case !netguard.Public(addr):
		return false, errPrivate
	}
	return r.cfg.AllowAll, nil
}

// ofThisMachine reports whether an interface of this machine has the address. If they
// cannot be listed, it may have.
func ofThisMachine(addr netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr
	})
}
