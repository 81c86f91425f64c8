package rejected

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// packetMessage is the kernel's message with a packet (linux/netfilter/nfnetlink_log.h).
func packetMessage(packet []byte) []byte {
	attribute := func(kind uint16, value []byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
		return append(b, make([]byte, align4(len(b))-len(b))...)
	}
	body := append([]byte{unix.AF_INET, 0, 0, 13}, attribute(1, []byte{8, 0, 3, 0})...)
	body = append(body, attribute(nfulaPayload, packet)...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, unix.NFNL_SUBSYS_ULOG<<8|nfulnlMsgPacket)
	return append(append(b, make([]byte, 10)...), body...)
}

// ipPacket is an IP packet with the beginning of its content.
func ipPacket(to string, protocol byte, content ...byte) []byte {
	addr := netip.MustParseAddr(to)
	if addr.Is4() {
		b := make([]byte, 20)
		b[0], b[9] = 0x45, protocol
		copy(b[16:], addr.AsSlice())
		return slices.Concat(b, content)
	}
	b := make([]byte, 40)
	b[0], b[6] = 0x60, protocol
	copy(b[24:], addr.AsSlice())
	return slices.Concat(b, content)
}

func TestParse(t *testing.T) {
	t.Parallel()
	udp := []byte{0xc0, 0, 0x01, 0xbb, 0, 9, 0, 0, 'x'}
	var all []byte
	for _, packet := range [][]byte{
		ipPacket("192.0.2.1", unix.IPPROTO_UDP, udp...), ipPacket("2001:db8::1", unix.IPPROTO_UDP, udp...), ipPacket("192.0.2.2", unix.IPPROTO_ICMP, 8, 0),
		ipPacket("192.0.2.3", unix.IPPROTO_UDP, 1), ipPacket("192.0.2.4", unix.IPPROTO_TCP, udp...), {0x45}, {0x4f, 0}, {},
	} {
		all = append(all, packetMessage(packet)...)
	}
	want := []Datagram{
		{To: netip.MustParseAddrPort("192.0.2.1:443")}, {To: netip.MustParseAddrPort("[2001:db8::1]:443")}, {ICMP: true, To: netip.MustParseAddrPort("192.0.2.2:0")},
	}
	if diff := cmp.Diff(want, parse(all), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Error(diff)
	}
	for end := range len(all) {
		_ = parse(all[:end])
	}
}

func FuzzParse(f *testing.F) {
	f.Add(packetMessage(ipPacket("192.0.2.1", unix.IPPROTO_UDP, 0, 1, 2, 3)))
	f.Add(packetMessage(ipPacket("2001:db8::1", unix.IPPROTO_ICMP)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range parse(b) {
			if !d.To.IsValid() {
				t.Errorf("%x became %+v", b, d)
			}
		}
	})
}
