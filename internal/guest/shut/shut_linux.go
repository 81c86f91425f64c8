// Package shut closes a container's network to callers from outside.
//
// A server that listens on all addresses of its container can be reached there
// by every program of the host, around the gateway. The gateway itself comes in
// by the guest's line, from inside, and needs no such way. So, before anything of
// the image runs, the guest sets a packet filter in the container's own network
// namespace, and gives up what it takes to set one (package guest/setup). The host's filters are not touched. The server's processes have no
// capability with which they could take it away again, and it is gone with the
// container.
//
// This is the only package that imports the netlink library.
package shut

import (
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is the nftables table that holds our rules.
const tableName = "thv"

// Install shuts the network namespace it runs in: from then on, what comes in by
// any interface but the loopback one opens no TCP connection, except to the open
// ports, and is no UDP datagram that nobody in here asked for. Who tries is
// refused at once.
//
// Everything that the container itself begins goes on working: only the segment
// that opens a TCP connection is looked at (SYN without ACK, RFC 9293 section
// 3.5), and a datagram that answers one of ours is known to the kernel's
// connection tracking. Repeating Install replaces the rules.
//
// Refusing and connection tracking are parts of nftables that a kernel may lack;
// without them TCP connections are dropped, and UDP is left alone.
func Install(open []uint16) error {
	if err := install(rules(open)); err == nil {
		return nil
	}
	if err := install(plainRules(open)); err != nil {
		return fmt.Errorf("set a packet filter: %w", err)
	}
	return nil
}

// install replaces the table in one transaction: all of it is there, or none.
func install(rules [][]expr.Any) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	// A table that is not there cannot be deleted, and one that is there can be
	// added again.
	conn.AddTable(table)
	conn.DelTable(table)
	conn.AddTable(table)
	accept := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{
		Name: "input", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &accept,
	})
	for _, exprs := range rules {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
	return conn.Flush()
}

// rules is everything we want: what nft(8) would write as
//
//	iifname lo accept
//	tcp dport 8080 accept                              # for each open port
//	tcp flags & (syn|ack) == syn reject with tcp reset
//	meta l4proto udp ct state new reject               # port unreachable
func rules(open []uint16) [][]expr.Any {
	return slices.Concat(accepted(open), [][]expr.Any{
		append(opening(), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}),
		append(newDatagram(), &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}),
	})
}

// plainRules is what the smallest of kernels can do.
func plainRules(open []uint16) [][]expr.Any {
	return append(accepted(open), append(opening(), &expr.Verdict{Kind: expr.VerdictDrop}))
}

func accepted(open []uint16) [][]expr.Any {
	loopback := make([]byte, unix.IFNAMSIZ)
	copy(loopback, "lo")
	all := [][]expr.Any{{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: loopback},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}}
	for _, port := range open {
		all = append(all, append(protocol(unix.IPPROTO_TCP),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, // destination port
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
			&expr.Verdict{Kind: expr.VerdictAccept},
		))
	}
	return all
}

// The control bits of a TCP header (RFC 9293 section 3.1), in its byte 13.
const (
	synBit = 0x02
	ackBit = 0x10
)

// opening matches a segment that opens a TCP connection.
func opening() []expr.Any {
	return append(protocol(unix.IPPROTO_TCP),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{synBit | ackBit}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{synBit}},
	)
}

// newDatagram matches a UDP datagram that answers none of ours.
func newDatagram() []expr.Any {
	return append(protocol(unix.IPPROTO_UDP),
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	)
}

func protocol(number byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
	}
}
