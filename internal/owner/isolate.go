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
	"github.com/toolhaven/toolhaven/internal/workload"
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
	if cfg.AllowGateway {
		info, err := s.engine.Info(ctx)
		if err != nil {
			return err
		}
		if info.Name == "Podman" {
			// It writes this machine's address into the container's /etc/hosts.
			cfg.GatewayAlias = outboundAddress()
		}
	}
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
	if addr := outboundAddress(); runtime.GOOS == "linux" && addr.IsValid() {
		return addr
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// outboundAddress is the address that this machine uses toward others; the zero value if it
// has no route. Nothing is sent.
func outboundAddress() netip.Addr {
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 9})
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// errNotIsolated: the server connects without this process.
var errNotIsolated = errors.New("its connections are known only with --isolate-network")

// connections is the response of the control socket.
func (o *owner) connections(after uint64) ([]egress.Record, error) {
	o.mu.Lock()
	serving := o.server != nil
	o.mu.Unlock()
	switch {
	case o.spec.Isolated() && serving:
		return o.instance.connections.After(after), nil
	case o.spec.Isolated():
		return nil, fmt.Errorf("workload %q is starting", o.spec.Name)
	case o.spec.Remote == nil && o.spec.NetworkName() == workload.NoNetwork:
		return []egress.Record{}, nil // it has no network
	}
	return nil, errNotIsolated
}

func auditConnection(r egress.Record) audit.Connection {
	c := audit.Connection{Kind: r.Kind, Name: r.Name, Port: r.Port, Allowed: r.Allowed, Reason: r.Reason, Sent: r.Sent, Received: r.Received}
	if r.Address.IsValid() {
		c.Address = r.Address.String()
	}
	return c
}
