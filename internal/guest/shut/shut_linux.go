// Package shut closes a container's network to callers from outside.
//
// A server that listens on all addresses of its container can be reached there by every
// program of the host, without the gateway. The gateway connects from inside, over the
// guest's line. So, before a program of the image runs, the guest sets a packet filter in
// the container's own network namespace and gives up the capability for it (package
// guest/setup). The host's filters are not changed. The server's processes cannot remove
// the filter; it ends with the container.
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

// tableName is the nftables table with the rules.
const tableName = "thv"

// Install closes the network namespace it runs in. Through every interface but loopback,
// TCP connections are then accepted at the open ports only, and UDP datagrams only as
// answers to datagrams from inside. Others are rejected at once.
//
// Connections from inside are not affected: the filter examines the segment that opens a
// TCP connection (SYN without ACK, RFC 9293 section 3.5), and the kernel's connection
// tracking recognizes a datagram that answers another. A second Install replaces the
// rules.
//
// A kernel may lack rejecting and connection tracking, which are parts of nftables.
// Without them, TCP connections are dropped and UDP is not filtered.
func Install(open []uint16) error {
	if err := install(rules(open), nil); err == nil {
		return nil
	}
	if err := install(plainRules(open), nil); err != nil {
		return fmt.Errorf("set a packet filter: %w", err)
	}
	return nil
}

// chainName is one of the table's chains.
type chainName int

const (
	chainInput chainName = iota
	chainRedirect
	chainOutput
)

// rule is a rule of a chain.
type rule struct {
	chain chainName
	exprs []expr.Any
}

// install replaces the table in one transaction. inside are the rules for what begins in
// the container; without any, the table has the input chain only.
func install(input [][]expr.Any, inside []rule) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	// Deleting a missing table fails and adding an existing one does not, so it is
	// added before it is deleted.
	conn.AddTable(table)
	conn.DelTable(table)
	conn.AddTable(table)
	chains := newChains(table)
	added := map[chainName]*nftables.Chain{chainInput: conn.AddChain(chains[chainInput])}
	for _, exprs := range input {
		conn.AddRule(&nftables.Rule{Table: table, Chain: added[chainInput], Exprs: exprs})
	}
	for _, r := range inside {
		if added[r.chain] == nil {
			added[r.chain] = conn.AddChain(chains[r.chain])
		}
		conn.AddRule(&nftables.Rule{Table: table, Chain: added[r.chain], Exprs: r.exprs})
	}
	return conn.Flush()
}

// rules are the complete rules, in the syntax of nft(8):
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

// plainRules are the rules for a kernel without rejecting and connection tracking.
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
	for _, number := range open {
		all = append(all, slices.Concat(protocol(unix.IPPROTO_TCP), port(number), []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}))
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

// newDatagram matches a UDP datagram that is not an answer to one from inside.
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
