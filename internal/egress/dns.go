package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// answerTTL is the time in seconds that a program may keep an answer.
	answerTTL = 30
	// answerKept is how long an address counts as that of the name it was answered for.
	// Some programs keep answers for longer than they may.
	answerKept = time.Hour
	// maxAnswers bounds the addresses that are remembered.
	maxAnswers = 4096
	// maxNames bounds the names that are remembered of one address.
	maxNames = 64
	// lookupTimeout bounds the lookup of one name.
	lookupTimeout = 8 * time.Second
	// maxAddresses bounds the addresses of one answer, so that it fits into 512 bytes (RFC
	// 1035 section 4.2.1) beside most names.
	maxAddresses = 8
)

// DNS answers questions of programs in the container, each a message after its length
// (RFC 1035 section 4.2.2).
func (g *Gateway) DNS(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	for {
		_ = conn.SetDeadline(time.Now().Add(dnsIdle))
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		answer, err := g.answer(ctx, question)
		if err != nil {
			return // it is not a question
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// dnsIdle bounds the time between two questions on a connection (RFC 7766 section 6.2.3).
const dnsIdle = 30 * time.Second

// parseQuestion reads a query with exactly one question (RFC 9619).
func parseQuestion(message []byte) (dnsmessage.Header, dnsmessage.Question, error) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil {
		return header, dnsmessage.Question{}, err
	}
	if header.Response {
		return header, dnsmessage.Question{}, errors.New("a response")
	}
	questions, err := p.AllQuestions()
	if err != nil {
		return header, dnsmessage.Question{}, err
	}
	if len(questions) != 1 {
		return header, dnsmessage.Question{}, errors.New("not one question")
	}
	return header, questions[0], nil
}

// answer returns the response to a query. An error is that it is none.
func (g *Gateway) answer(ctx context.Context, message []byte) ([]byte, error) {
	header, q, err := parseQuestion(message)
	if err != nil {
		return nil, err
	}
	if header.OpCode != 0 || q.Class != dnsmessage.ClassINET {
		return response(header, q, dnsmessage.RCodeNotImplemented, nil)
	}
	name := canonical(q.Name.String())
	if !g.rules.name(name) {
		// NXDOMAIN and not REFUSED, after which programs wait and ask again.
		if reverse := strings.HasSuffix(name, ".arpa"); !reverse {
			g.log.refuse(Record{Kind: KindDNS, Name: shown(name)}, errName)
		}
		return response(header, q, dnsmessage.RCodeNameError, nil)
	}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		return response(header, q, dnsmessage.RCodeSuccess, nil)
	}
	found, err := g.lookup(ctx, name)
	var fault *net.DNSError
	if errors.As(err, &fault) && fault.IsNotFound {
		return response(header, q, dnsmessage.RCodeNameError, nil)
	}
	if err != nil {
		return response(header, q, dnsmessage.RCodeServerFailure, nil)
	}
	addresses, closed := g.usable(found)
	if len(addresses) == 0 && closed != nil {
		g.log.refuse(Record{Kind: KindDNS, Name: shown(name), Address: found[0]}, closed)
	}
	var answered []netip.Addr
	for _, addr := range addresses {
		if addr.Is4() == (q.Type == dnsmessage.TypeA) && len(answered) < maxAddresses {
			answered = append(answered, addr)
		}
	}
	g.answers.add(name, answered)
	return response(header, q, dnsmessage.RCodeSuccess, answered)
}

// usable are the addresses that may be dialed on some port. closed is why others may not.
func (g *Gateway) usable(found []netip.Addr) (addresses []netip.Addr, closed error) {
	for _, addr := range found {
		if _, err := g.rules.address(addr, true); err != nil {
			closed = err // such as DNS rebinding to a private address
			continue
		}
		if addr.Is6() && !g.routed(addr) {
			continue // programs would try it first
		}
		addresses = append(addresses, addr)
	}
	return addresses, closed
}

// lookup returns the addresses of an allowed name.
func (g *Gateway) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if isGatewayName(name) {
		return []netip.Addr{g.rules.cfg.Gateway}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := g.resolve(ctx, name)
	for i := range found {
		found[i] = found[i].Unmap().WithZone("")
	}
	return found, err
}

// systemLookup asks the machine's resolver. On Linux it is Go's, where a dot at the end
// keeps the machine's own domains from being tried.
func systemLookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if runtime.GOOS == "linux" {
		return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name+".")
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// systemRoute reports whether this machine has a route to an address. It sends nothing.
func systemRoute(addr netip.Addr) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// response is the response to a question (RFC 1035 section 4.1). The addresses are of the
// question's type.
func response(query dnsmessage.Header, q dnsmessage.Question, code dnsmessage.RCode, addresses []netip.Addr) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: query.ID, Response: true, OpCode: query.OpCode, RecursionDesired: query.RecursionDesired, RecursionAvailable: true, RCode: code,
	})
	b.EnableCompression()
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
	for _, addr := range addresses {
		var err error
		if addr.Is4() {
			err = b.AResource(header, dnsmessage.AResource{A: addr.As4()})
		} else {
			err = b.AAAAResource(header, dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// answers are the addresses that names were answered with.
type answers struct {
	mu sync.Mutex
	by map[netip.Addr]map[string]time.Time // the end of its validity
}

func (a *answers) add(name string, addresses []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	until := time.Now().Add(answerKept)
	for _, addr := range addresses {
		if a.by[addr] == nil {
			if len(a.by) >= maxAnswers {
				a.evict()
			}
			a.by[addr] = map[string]time.Time{}
		}
		if names := a.by[addr]; len(names) < maxNames || !names[name].IsZero() {
			names[name] = until
		}
	}
}

// evict removes the address whose last answer is the oldest. The caller holds mu.
func (a *answers) evict() {
	var oldest netip.Addr
	var last time.Time
	for addr, names := range a.by {
		var latest time.Time
		for _, until := range names {
			if until.After(latest) {
				latest = until
			}
		}
		if last.IsZero() || latest.Before(last) {
			oldest, last = addr, latest
		}
	}
	delete(a.by, oldest)
}

// names are the names that were answered with an address.
func (a *answers) names(addr netip.Addr) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, valid := time.Now(), map[string]bool{}
	for name, until := range a.by[addr] {
		if until.After(now) {
			valid[name] = true
		}
	}
	return valid
}
