package shut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// routeThroughLoopback adds a default route through loopback for each family that has no
// default route and an address on loopback. What takes it comes to the output chain and
// not further.
func routeThroughLoopback() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	addresses, err := lo.Addrs()
	if err != nil {
		return fmt.Errorf("list the loopback addresses: %w", err)
	}
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return fmt.Errorf("open the kernel's routes: %w", err)
	}
	defer conn.Close()
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsLoopback() {
			continue
		}
		if err := addDefault(conn, lo.Index, prefix.Addr()); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add a route through loopback: %w", err)
		}
	}
	return nil
}

// addDefault adds a default route to an interface, with the source address
// (rtnetlink(7), RTM_NEWROUTE). It fails with EEXIST if there is a default route of the same
// metric.
func addDefault(conn *netlink.Conn, index int, source netip.Addr) error {
	family := byte(unix.AF_INET)
	if source.Is6() {
		family = unix.AF_INET6
	}
	// struct rtmsg: family, lengths of destination and source, TOS, table, protocol,
	// scope, type, flags.
	message := []byte{family, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0}
	if family == unix.AF_INET6 {
		message[6] = unix.RT_SCOPE_UNIVERSE
	}
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.RTA_OIF, Data: binary.NativeEndian.AppendUint32(nil, uint32(index))},
		{Type: unix.RTA_PREFSRC, Data: source.AsSlice()},
		// The last choice where there is another.
		{Type: unix.RTA_PRIORITY, Data: binary.NativeEndian.AppendUint32(nil, loopbackMetric)},
	})
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWROUTE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
		Data:   append(message, attributes...),
	})
	return err
}

// loopbackMetric is greater than that of the routes that engines set.
const loopbackMetric = 1 << 20
