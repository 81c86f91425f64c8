package owner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/guest"
)

// isolate makes this process decide about the connections that the server begins, if the
// Spec isolates its network.
func (s *instance) isolate(ctx context.Context, line *guest.Line) error {
	if !s.spec.Isolated() {
		return nil
	}
	cfg := s.spec.Egress()
	var err error
	if cfg.Gateway, err = s.engine.Gateway(ctx); err != nil {
		return err
	}
	cfg.GatewayTarget = gatewayTarget(cfg.Gateway)
	allowed, err := egress.New(cfg, s.connections)
	if err != nil {
		return err
	}
	return line.Isolate(ctx, allowed)
}

// gatewayTarget is the address at which this process reaches what containers reach at
// the engine's gateway: the same where the engine's bridge is on this machine. An engine
// in a virtual machine, or without privileges, has the bridge elsewhere and forwards to
// this machine.
func gatewayTarget(gateway netip.Addr) netip.Addr {
	own, err := net.InterfaceAddrs()
	if err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == gateway
	}) {
		return gateway
	}
	if runtime.GOOS == "linux" {
		// The address that is used toward others; nothing is sent.
		conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9})
		if err == nil {
			defer conn.Close()
			return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// errNotIsolated: the server connects without this process.
var errNotIsolated = errors.New("its connections are known only with --isolate-network")

// connections is the response of the control socket.
func (o *owner) connections(after uint64) ([]egress.Record, error) {
	o.mu.Lock()
	serving := o.server != nil
	o.mu.Unlock()
	if !o.spec.Isolated() {
		return nil, errNotIsolated
	}
	if !serving {
		return nil, fmt.Errorf("workload %q is starting", o.spec.Name)
	}
	return o.instance.connections.After(after), nil
}

func auditConnection(r egress.Record) audit.Connection {
	c := audit.Connection{Kind: r.Kind, Name: r.Name, Port: r.Port, Allowed: r.Allowed, Reason: r.Reason, Sent: r.Sent, Received: r.Received}
	if r.Address.IsValid() {
		c.Address = r.Address.String()
	}
	return c
}
