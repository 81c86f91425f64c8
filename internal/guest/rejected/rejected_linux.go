package guest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"
)

// inherited is a file descriptor that the program had when it was executed. Processes that
// it starts do not get it.
func inherited(fd int) *os.File {
	unix.CloseOnExec(fd)
	_ = unix.SetNonblock(fd, true) // so that closing it ends a read
	return os.NewFile(uintptr(fd), "rejected packets")
}

// reportRejected sends the gateway what the packet filter rejects, until the file is closed.
// Its rate is limited by the filter.
func reportRejected(file *os.File, session *yamux.Session) {
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		if errors.Is(err, unix.ENOBUFS) {
			continue // the kernel has dropped some
		}
		if err != nil {
			return
		}
		for _, out := range rejectedIn(buf[:n]) {
			if stream, err := openEgress(session, out); err == nil {
				_ = stream.Close()
			}
		}
	}
}

// Constants of linux/netfilter/nfnetlink_log.h.
const (
	nfulnlMsgPacket = 0
	nfulaPayload    = 9
)

// rejectedIn reads netlink messages with packets (netlink(7), "struct nlmsghdr"). What is
// not understood is left out.
func rejectedIn(messages []byte) []outgoing {
	var all []outgoing
	for len(messages) >= unix.NLMSG_HDRLEN {
		length := int(binary.NativeEndian.Uint32(messages))
		kind := binary.NativeEndian.Uint16(messages[4:])
		if length < unix.NLMSG_HDRLEN || length > len(messages) {
			break
		}
		const family = 4 // struct nfgenmsg
		if kind == unix.NFNL_SUBSYS_ULOG<<8|nfulnlMsgPacket && length >= unix.NLMSG_HDRLEN+family {
			if out, ok := parsePacket(attribute(messages[unix.NLMSG_HDRLEN+family:length], nfulaPayload)); ok {
				all = append(all, out)
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
func parsePacket(b []byte) (out outgoing, ok bool) {
	if len(b) == 0 {
		return out, false
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
		return out, false
	}
	switch {
	case protocol == unix.IPPROTO_UDP && len(rest) >= 4:
		return outgoing{Op: opRejectedUDP, Address: netip.AddrPortFrom(to, binary.BigEndian.Uint16(rest[2:])).String()}, true
	case protocol == unix.IPPROTO_ICMP:
		return outgoing{Op: opRejectedICMP, Address: netip.AddrPortFrom(to, 0).String()}, true
	}
	return out, false
}
