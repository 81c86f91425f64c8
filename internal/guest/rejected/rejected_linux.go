// Package rejected reads the kernel's record of the packets that a packet filter has rejected
// (NFLOG).
package rejected

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Datagram is one that was rejected: of UDP, or of ICMP, which has no port.
type Datagram struct {
	ICMP bool
	To   netip.AddrPort
}

// Report calls each for what the packet filter rejects, until the file is closed. The filter
// limits its rate.
func Report(file io.Reader, each func(Datagram)) {
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		if errors.Is(err, unix.ENOBUFS) {
			continue // the kernel has dropped some
		}
		if err != nil {
			return
		}
		for _, d := range parse(buf[:n]) {
			each(d)
		}
	}
}

// Constants of linux/netfilter/nfnetlink_log.h.
const (
	nfulnlMsgPacket = 0
	nfulaPayload    = 9
)

// parse reads netlink messages with packets (netlink(7), "struct nlmsghdr"). What is
// not understood is left out.
func parse(messages []byte) []Datagram {
	var all []Datagram
	for len(messages) >= unix.NLMSG_HDRLEN {
		length := int(binary.NativeEndian.Uint32(messages))
		kind := binary.NativeEndian.Uint16(messages[4:])
		if length < unix.NLMSG_HDRLEN || length > len(messages) {
			break
		}
		const family = 4 // struct nfgenmsg
		if kind == unix.NFNL_SUBSYS_ULOG<<8|nfulnlMsgPacket && length >= unix.NLMSG_HDRLEN+family {
			if d, ok := parsePacket(attribute(messages[unix.NLMSG_HDRLEN+family:length], nfulaPayload)); ok {
				all = append(all, d)
			}
		}
		messages = messages[min(len(messages), align4(length)):]
	}
	return all
}

func align4(n int) int { return (n + 3) &^ 3 }

// attribute returns the value of an attribute (netlink(7), "struct nlattr"), nil if it is not
// there.
func attribute(attributes []byte, kind uint16) []byte {
	const header = 4
	for len(attributes) >= header {
		length := int(binary.NativeEndian.Uint16(attributes))
		if length < header || length > len(attributes) {
			return nil
		}
		if binary.NativeEndian.Uint16(attributes[2:]) == kind {
			return attributes[header:length]
		}
		attributes = attributes[min(len(attributes), align4(length)):]
	}
	return nil
}

// parsePacket reads the destination of an IP packet (RFC 791 section 3.1, RFC 8200 section
// 3), and its port if it is of UDP (RFC 768).
func parsePacket(b []byte) (d Datagram, ok bool) {
	if len(b) == 0 {
		return d, false
	}
	var protocol byte
	var to netip.Addr
	var rest []byte
	switch header := int(b[0]&15) * 4; {
	case b[0]>>4 == 4 && header >= 20 && len(b) >= header:
		protocol, to, rest = b[9], netip.AddrFrom4([4]byte(b[16:20])), b[header:]
	case b[0]>>4 == 6 && len(b) >= 40:
		protocol, to, rest = b[6], netip.AddrFrom16([16]byte(b[24:40])), b[40:]
	default:
		return d, false
	}
	switch {
	case protocol == unix.IPPROTO_UDP && len(rest) >= 4:
		return Datagram{To: netip.AddrPortFrom(to, binary.BigEndian.Uint16(rest[2:]))}, true
	case protocol == unix.IPPROTO_ICMP:
		return Datagram{ICMP: true, To: netip.AddrPortFrom(to, 0)}, true
	}
	return d, false
}
