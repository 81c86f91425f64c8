package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Gateway makes the connections of one isolated container. It implements guest.Egress.
type Gateway struct {
	rules   *rules
	log     *Log
	answers answers

	// resolve looks a name up; routed reports whether there is a route to an address;
	// dial connects to an address that may be dialed.
	resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	routed  func(netip.Addr) bool
	dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// New returns a Gateway that records in log. It fails as [Config.Validate] does.
func New(cfg Config, log *Log) (*Gateway, error) {
	r, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	g := &Gateway{rules: r, log: log, answers: answers{by: map[netip.Addr]map[string]time.Time{}}, resolve: systemLookup, routed: systemRoute}
	g.dial = g.systemDial
	return g, nil
}

// dialTimeout bounds one connect.
const dialTimeout = 10 * time.Second

// systemDial connects to an address. The address is checked by the caller; it is a
// number, so nothing is resolved after the check. What the kernel is about to connect to
// is compared all the same.
func (g *Gateway) systemDial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if target := g.rules.cfg.GatewayTarget; to.Addr() == g.rules.cfg.Gateway && target.IsValid() {
		to = netip.AddrPortFrom(target, to.Port())
	}
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if got, err := netip.ParseAddrPort(address); err != nil || got.Port() != to.Port() || got.Addr().Unmap() != to.Addr() {
			return fmt.Errorf("%s is not the address that was checked", address)
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", to.String())
}

// Connect serves a connection of a program in the container to an address.
func (g *Gateway) Connect(ctx context.Context, to netip.AddrPort, accept func() (net.Conn, error)) {
	names := map[string]bool{}
	for name := range g.answers.names(to.Addr()) {
		if g.rules.name(name) {
			names[name] = true
		}
	}
	record := Record{Kind: KindTCP, Name: only(names), Address: to.Addr(), Port: int(to.Port())}
	listed, err := g.rules.target(to, len(names) > 0)
	if err != nil {
		g.log.refuse(record, err)
		return
	}
	out, err := g.dial(ctx, to)
	if err != nil {
		g.log.open(record)(0, 0, dialReason(err))
		return
	}
	defer out.Close()
	conn, err := accept()
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close(); out.Close() })
	defer stop()
	if listed {
		g.carry(record, &firstRead{Conn: conn}, &firstRead{Conn: out})
		return
	}
	g.inspect(ctx, record, conn, out, names)
}

// Rejected records a datagram that the container's packet filter has rejected.
func (g *Gateway) Rejected(protocol string, to netip.AddrPort) {
	record := Record{Kind: KindUDP, Name: only(g.answers.names(to.Addr())), Address: to.Addr(), Port: int(to.Port())}
	if protocol == KindICMP {
		record.Kind, record.Port = KindICMP, 0
	}
	g.log.refuse(record, errDatagram)
}

// dialReason is an error of a dial without the address, which the record has.
func dialReason(err error) string {
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		return "cannot be reached: " + errno.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "cannot be reached: timeout"
	}
	return "cannot be reached"
}

// only is the one name, or "" if there are several.
func only(names map[string]bool) string {
	if len(names) == 1 {
		for name := range names {
			return name
		}
	}
	return ""
}

// shown is a name from outside for a record.
func shown(name string) string { return plaintext.Excerpt(name, 253) }

// carry copies both directions until both have ended, and records it.
func (g *Gateway) carry(record Record, conn, out net.Conn) {
	end := g.log.open(record)
	var sent, received atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyCounted(out, conn, &sent)
		closeWrite(out)
	}()
	copyCounted(conn, out, &received)
	closeWrite(conn)
	// The other side has ended. A program that goes on sending has a while.
	_ = conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	<-done
	end(sent.Load(), received.Load(), "")
}

// lingerTimeout is how long a program may go on sending after the other side has closed
// the connection.
const lingerTimeout = 30 * time.Second

// copyCounted copies and counts until one side ends. Between two TCP connections the kernel
// copies (splice(2)).
func copyCounted(to, from net.Conn, n *atomic.Int64) {
	if first, ok := from.(*firstRead); ok {
		if err := first.flush(to, n); err != nil {
			_ = from.SetReadDeadline(time.Now())
			return
		}
	}
	if toTCP, fromTCP := tcpOf(to), tcpOf(from); toTCP != nil && fromTCP != nil {
		copied, err := toTCP.ReadFrom(fromTCP)
		n.Add(copied)
		if err != nil {
			_ = from.SetReadDeadline(time.Now())
		}
		return
	}
	buf := make([]byte, 32<<10)
	for {
		read, err := from.Read(buf)
		if read > 0 {
			n.Add(int64(read))
			if _, err := to.Write(buf[:read]); err != nil {
				// The sender's connection ends too.
				_ = from.SetReadDeadline(time.Now())
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// closeWrite ends one direction, or the connection where that is not possible.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

// firstRead is a connection whose first bytes were read already, or are being read.
type firstRead struct {
	net.Conn
	first   []byte       // read before
	err     error        // after first
	pending <-chan chunk // of a read that has not returned; nil for none
}

// chunk is what a read returned.
type chunk struct {
	b   []byte
	err error
}

// maxFirst bounds a first read.
const maxFirst = 16 << 10

// readAhead begins a read.
func readAhead(c net.Conn) (conn *firstRead, ready <-chan chunk) {
	result := make(chan chunk, 1)
	go func() {
		buf := make([]byte, maxFirst)
		n, err := c.Read(buf)
		result <- chunk{buf[:n], err}
	}()
	return &firstRead{Conn: c, pending: result}, result
}

// take puts the outcome of the pending read, which the caller received, before the rest.
func (f *firstRead) take(c chunk) { f.first, f.err, f.pending = c.b, c.err, nil }

// Read returns the first bytes, then those of the connection.
func (f *firstRead) Read(b []byte) (int, error) {
	if f.pending != nil {
		f.take(<-f.pending)
	}
	if len(f.first) > 0 {
		n := copy(b, f.first)
		f.first = f.first[n:]
		return n, nil
	}
	if f.err != nil {
		return 0, f.err
	}
	return f.Conn.Read(b)
}

// flush writes what was read before to a connection. The error is of the first read, or of
// the write.
func (f *firstRead) flush(to net.Conn, n *atomic.Int64) error {
	if f.pending != nil {
		f.take(<-f.pending)
	}
	n.Add(int64(len(f.first)))
	if len(f.first) > 0 {
		if _, err := to.Write(f.first); err != nil {
			return err
		}
	}
	f.first = nil
	return f.err
}

// tcpOf returns the TCP connection that a connection is, or nil.
func tcpOf(c net.Conn) *net.TCPConn {
	if first, ok := c.(*firstRead); ok {
		c = first.Conn
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// CloseWrite ends one direction.
func (f *firstRead) CloseWrite() error {
	closeWrite(f.Conn)
	return nil
}

var _ io.Reader = (*firstRead)(nil)
