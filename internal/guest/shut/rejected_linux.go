package shut

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// rejectedGroup is the number of the kernel's log that has what [Redirect] rejects
// (nft(8), "log group").
const rejectedGroup = 13

// Of each rejected datagram the kernel copies the headers. More than so many in a second
// are not recorded.
const (
	headerBytes  = 64
	rejectedRate = 20
)

// logged are the rules that record the datagrams that the next rule rejects: of UDP, and of
// ICMP, which programs may send without privileges.
//
//	meta l4proto udp limit rate 20/second burst 40 packets log group 13 snaplen 64
func logged() []rule {
	var all []rule
	for _, number := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_ICMP} {
		all = append(all, rule{chainOutput, append(protocol(number),
			&expr.Limit{Type: expr.LimitTypePkts, Rate: rejectedRate, Unit: expr.LimitTimeSecond, Burst: 2 * rejectedRate},
			&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_SNAPLEN, Group: rejectedGroup, Snaplen: headerBytes},
		)})
	}
	return all
}

// Constants of linux/netfilter/nfnetlink_log.h.
const (
	nfulnlMsgConfig  = 1
	nfulaCfgCmd      = 1
	nfulaCfgMode     = 2
	nfulaCfgTimeout  = 4
	nfulaCfgQThresh  = 5
	nfulnlCmdBind    = 1
	nfulnlCopyPacket = 2
)

// Rejected opens the kernel's record of what [Redirect] rejects, as the file descriptor of
// a netlink socket that stays open when this program executes another. It takes
// CAP_NET_ADMIN, and reading does not.
func Rejected() (fd int, err error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	// struct nfgenmsg: family, version, the group in network order.
	header := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, 0}, rejectedGroup)
	mode := append(binary.BigEndian.AppendUint32(nil, headerBytes), nfulnlCopyPacket, 0)
	for _, attributes := range [][]netlink.Attribute{
		{{Type: nfulaCfgCmd, Data: []byte{nfulnlCmdBind}}},
		{
			{Type: nfulaCfgMode, Data: mode},
			{Type: nfulaCfgTimeout, Data: binary.BigEndian.AppendUint32(nil, 10)}, // hundredths of a second
			{Type: nfulaCfgQThresh, Data: binary.BigEndian.AppendUint32(nil, 1)},
		},
	} {
		data, err := netlink.MarshalAttributes(attributes)
		if err != nil {
			return 0, err
		}
		if _, err := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_ULOG<<8 | nfulnlMsgConfig, Flags: netlink.Request | netlink.Acknowledge},
			Data:   append(header[:len(header):len(header)], data...),
		}); err != nil {
			return 0, fmt.Errorf("read the kernel's record of rejected packets: %w", err)
		}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(socket uintptr) { fd, err = unix.Dup(int(socket)) }) // without close-on-exec
	if controlErr != nil {
		return 0, controlErr
	}
	return fd, err
}
