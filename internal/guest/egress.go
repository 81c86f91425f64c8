package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// The guest's ports, on the loopback addresses of an isolated container. EgressPort
// receives the connections that are redirected; for programs that connect to it directly
// it is the port of an HTTP proxy. DNSPort receives DNS questions over UDP.
const (
	EgressPort = 13128
	DNSPort    = 13053
)

// Egress decides about the connections that begin in an isolated container, and serves
// them. Its methods run concurrently. The connections have a method CloseWrite, and are
// closed after the method.
type Egress interface {
	// Connect serves a connection to an address. accept returns it; an error is that it is
	// gone. Without accept the program in the container receives a reset.
	Connect(ctx context.Context, to netip.AddrPort, accept func() (net.Conn, error))
	// Proxy serves a connection of a program that uses an HTTP proxy.
	Proxy(ctx context.Context, conn net.Conn)
	// DNS answers messages, each after its length (RFC 1035 section 4.2.2).
	DNS(ctx context.Context, conn net.Conn)
	// Rejected is called for a datagram that the container's packet filter has rejected.
	// protocol is udp or icmp, which has no port.
	Rejected(protocol string, to netip.AddrPort)
}

const (
	// maxConnections bounds the connections and questions of a container at the same
	// time. Others are refused.
	maxConnections = 512
	// openTimeout bounds the time until the gateway has accepted a connection.
	openTimeout = 30 * time.Second
)

// Isolate makes the guest accept what the container's programs connect to, and serves it
// with e until the line ends. It must be called once and before the first Spawn, because
// the guest's ports must be free. It works in a container that was created with
// [SetUp].Isolate.
//
// Over a [Shortcut] the guest hands the connections over. Otherwise, and for DNS over UDP,
// it opens a stream for each.
func (l *Line) Isolate(ctx context.Context, e Egress) error {
	serving, cancel := context.WithCancel(context.Background())
	s := &egressServer{ctx: serving, egress: e, slots: make(chan struct{}, maxConnections)}
	if l.files != nil {
		l.files.mu.Lock()
		l.files.outgoing = s.handed
		l.files.mu.Unlock()
	}
	go func() {
		defer cancel() // ends what is served
		s.streams(l.session)
	}()
	stream, _, err := l.request(ctx, request{Op: opIsolate})
	if err != nil {
		return fmt.Errorf("isolate the container's network: %w", err)
	}
	return stream.Close()
}

// egressServer serves what a guest forwards.
type egressServer struct {
	ctx    context.Context // ends with the line
	egress Egress
	slots  chan struct{} // bounds what is served
}

// streams accepts the guest's streams until the line ends.
func (s *egressServer) streams(session *yamux.Session) {
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		s.slots <- struct{}{} // the guest has the same bound
		go func() {
			defer func() { <-s.slots }()
			s.stream(stream)
		}()
	}
}

// stream serves one stream of the guest.
func (s *egressServer) stream(stream *yamux.Stream) {
	conn := &tunnel{Stream: stream}
	defer conn.Close()
	_ = stream.SetDeadline(time.Now().Add(openTimeout))
	line, err := readLine(stream)
	if err != nil {
		return
	}
	op, to, err := parseOutgoing(line)
	switch {
	case err != nil:
		return // it is not our guest
	case op == opRejectedUDP || op == opRejectedICMP:
		_ = writeLine(stream, response{})
		s.egress.Rejected(strings.TrimPrefix(op, "rejected-"), to)
		return
	}
	s.serve(op, to, func() (net.Conn, error) {
		if err := writeLine(stream, response{}); err != nil {
			return nil, err
		}
		return conn, stream.SetDeadline(time.Time{})
	})
}

// handed serves a connection that the guest has handed over.
func (s *egressServer) handed(file *os.File) {
	conn, err := connectionOf([]*os.File{file})
	if err != nil {
		return
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		reset(tcp)
		return
	}
	go func() {
		defer func() { <-s.slots }()
		out, err := outgoingOf(tcp)
		if err != nil {
			reset(tcp)
			return
		}
		accepted := false
		to, _ := netip.ParseAddrPort(out.Address) // invalid for other operations
		to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
		s.serve(out.Op, to, func() (net.Conn, error) { accepted = true; return tcp, nil })
		if !accepted {
			reset(tcp)
			return
		}
		_ = tcp.Close()
	}()
}

func (s *egressServer) serve(op string, to netip.AddrPort, accept func() (net.Conn, error)) {
	if op == opConnect {
		s.egress.Connect(s.ctx, to, accept)
		return
	}
	conn, err := accept()
	if err != nil {
		return
	}
	if op == opProxy {
		s.egress.Proxy(s.ctx, conn)
	} else {
		s.egress.DNS(s.ctx, conn)
	}
}

// reset closes a connection with a reset, so that the program gets an error and not an
// end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// outgoing is the first line of a stream that the guest opens.
type outgoing struct {
	Op      string `json:"op"`
	Address string `json:"address,omitempty"`
}

// parseOutgoing reads that line strictly.
func parseOutgoing(line []byte) (op string, to netip.AddrPort, err error) {
	var out outgoing
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return "", to, fmt.Errorf("the connection is not understood: %v", err)
	}
	switch out.Op {
	case opConnect, opRejectedUDP, opRejectedICMP:
		to, err = netip.ParseAddrPort(out.Address)
		if err != nil {
			return "", to, errors.New("the connection has no valid address")
		}
		return out.Op, netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port()), nil
	case opProxy, opDNS:
		return out.Op, to, nil
	}
	return "", to, fmt.Errorf("unknown operation %.40q", out.Op)
}

// tunnel is a connection of the container, as a stream. Closing a yamux stream closes one
// direction; Close closes both.
type tunnel struct {
	*yamux.Stream
	closed sync.Once
}

// CloseWrite closes the direction to the container.
func (t *tunnel) CloseWrite() error { return t.Stream.Close() }

// Close closes both directions: the guest closes the connection when the stream's other
// direction ends.
func (t *tunnel) Close() error {
	err := t.Stream.Close()
	t.closed.Do(func() {
		// The stream ends when the guest has closed it too; what it still sends is
		// dropped.
		_ = t.SetReadDeadline(time.Now().Add(closeTimeout))
		go func() { _, _ = io.Copy(io.Discard, t.Stream) }()
	})
	return err
}

// closeTimeout bounds the wait for the other end of a connection that was closed.
const closeTimeout = 5 * time.Second
