package shut

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Redirect closes the network namespace it runs in also to connections from inside. Those
// through loopback to the container itself work. Every other TCP connection arrives at
// the port tcp of the loopback address instead, with its original destination
// (SO_ORIGINAL_DST), and every UDP datagram to port 53 at the port dns. All other packets
// are rejected. The open ports may be reached from outside, as with [Install].
//
// In a namespace without an interface it adds a route through loopback, because the
// kernel looks for a route before the filter sees a packet. IPv6 is closed where loopback
// has no address of it. [Rejected] reads which datagrams were rejected. An error means that the network may be open: nothing must be
// started then.
func Redirect(open []uint16, tcp, dns uint16) error {
	own, err := ownAddresses()
	if err != nil {
		return err
	}
	inside := append(redirects(own, tcp, dns), outputs(own)...)
	// A kernel may lack recording, which is another part of nftables.
	if err := install(rules(open), slices.Concat(inside, logged(), rejected())); err != nil {
		if err := install(rules(open), slices.Concat(inside, rejected())); err != nil {
			return fmt.Errorf("set the packet filter for an isolated network: %w", err)
		}
	}
	return routeThroughLoopback()
}

// ownAddresses are the addresses of the namespace's interfaces, but those of loopback.
func ownAddresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the container's addresses: %w", err)
	}
	var own []netip.Addr
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().IsLoopback() {
			continue
		}
		own = append(own, prefix.Addr())
	}
	return own, nil
}

// priorityRedirect is before the rules by which an engine redirects DNS to itself, which
// are at the usual priority (-100). The first one that translates an address decides.
const priorityRedirect = -150

var (
	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
	loopback6 = netip.MustParsePrefix("::1/128")
	// engineDNS is where Docker's resolver listens in containers of named networks. It
	// answers everything, so it must not be reached on any port.
	engineDNS = netip.MustParsePrefix("127.0.0.11/32")
)

// redirects are the rules of the chain that translates addresses:
//
//	udp dport 53 redirect to :dns
//	ip daddr 127.0.0.0/8 accept       # and ::1, and the own addresses
//	meta l4proto tcp redirect to :tcp
func redirects(own []netip.Addr, tcp, dns uint16) []rule {
	question := append(protocol(unix.IPPROTO_UDP), port(53)...)
	all := []rule{{chainRedirect, append(question, redirectTo(dns)...)}}
	for _, prefix := range reachable(own) {
		if prefix == engineDNS {
			continue
		}
		all = append(all, rule{chainRedirect, append(destination(prefix), &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	return append(all, rule{chainRedirect, append(protocol(unix.IPPROTO_TCP), redirectTo(tcp)...)})
}

// outputs are the rules for what leaves, after redirects. Answers to connections from
// outside, which the input chain has accepted, are let through.
//
//	ip daddr 127.0.0.11 reject
//	ip daddr 127.0.0.0/8 accept       # and ::1, and the own addresses
//	ct state established,related accept
//	meta l4proto udp log group 13     # see logged
//	reject
func outputs(own []netip.Addr) []rule {
	all := []rule{{chainOutput, append(destination(engineDNS), rejection())}}
	for _, prefix := range reachable(own) {
		all = append(all, rule{chainOutput, append(destination(prefix), &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	return append(all,
		rule{chainOutput, []expr.Any{
			&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
			&expr.Bitwise{
				SourceRegister: 1, DestRegister: 1, Len: 4,
				Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), Xor: make([]byte, 4),
			},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}},
	)
}

// rejected is the last rule of outputs.
func rejected() []rule { return []rule{{chainOutput, []expr.Any{rejection()}}} }

func rejection() expr.Any {
	return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}
}

// reachable are the addresses of the container itself.
func reachable(own []netip.Addr) []netip.Prefix {
	all := []netip.Prefix{loopback4, loopback6}
	for _, addr := range own {
		all = append(all, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
	}
	return all
}

// destination matches the destination address of a packet (RFC 791 section 3.1, RFC 8200
// section 3).
func destination(prefix netip.Prefix) []expr.Any {
	family, offset := byte(unix.NFPROTO_IPV4), uint32(16)
	if prefix.Addr().Is6() {
		family, offset = unix.NFPROTO_IPV6, 24
	}
	address := prefix.Masked().Addr().AsSlice()
	mask := make([]byte, len(address))
	for bit := range prefix.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(address))},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(address)), Mask: mask, Xor: make([]byte, len(address))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: slices.Clone(address)},
	}
}

// port matches the destination port of TCP and UDP (RFC 9293 section 3.1, RFC 768).
func port(number uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(number)},
	}
}

// redirectTo changes the destination to the loopback address and that port.
func redirectTo(number uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(number)},
		&expr.Redir{RegisterProtoMin: 1},
	}
}

func newChains(table *nftables.Table) map[chainName]*nftables.Chain {
	accept, drop := nftables.ChainPolicyAccept, nftables.ChainPolicyDrop
	redirect := nftables.ChainPriority(priorityRedirect)
	return map[chainName]*nftables.Chain{
		chainInput: {
			Name: "input", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &accept,
		},
		chainRedirect: {
			Name: "redirect", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookOutput, Priority: &redirect, Policy: &accept,
		},
		chainOutput: {
			Name: "output", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter, Policy: &drop,
		},
	}
}
