package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/toolhaven/toolhaven/internal/guest/rejected"
)

// egress is the guest's side of an isolated container's connections. Every connection
// and question that is redirected to the guest's ports becomes a stream to the gateway,
// which decides, or is handed over to it.
type egress struct {
	listening atomic.Bool
	// rejected is the kernel's record of rejected packets, or nil.
	rejected *os.File
}

// maxDatagram bounds a DNS message over UDP, in bytes (RFC 6891 section 6.2.5).
const maxDatagram = 4096

// dnsTimeout bounds one question, as resolvers do.
const dnsTimeout = 10 * time.Second

// listen opens the guest's ports and serves them until ctx or the session ends.
func (e *egress) listen(ctx context.Context, session *yamux.Session, files *giver) error {
	if e.listening.Swap(true) {
		return errors.New("the network is isolated already")
	}
	if e.rejected != nil {
		go rejected.Report(e.rejected, func(d rejected.Datagram) { reportRejected(session, d) })
		context.AfterFunc(ctx, func() { e.rejected.Close() })
	}
	slots := make(chan struct{}, maxConnections)
	var lc net.ListenConfig
	for i, host := range []string{"127.0.0.1", "::1"} {
		tcp, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(EgressPort)))
		if err != nil && i > 0 {
			break // no IPv6 in this container: it is closed
		}
		if err != nil {
			return err
		}
		udp, err := lc.ListenPacket(ctx, "udp", net.JoinHostPort(host, fmt.Sprint(DNSPort)))
		if err != nil {
			tcp.Close()
			return err
		}
		go acceptEgress(tcp, session, files, slots)
		go receiveQuestions(udp, session, slots)
		context.AfterFunc(ctx, func() { tcp.Close(); udp.Close() })
	}
	return nil
}

func acceptEgress(l net.Listener, session *yamux.Session, files *giver, slots chan struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			<-time.After(10 * time.Millisecond) // out of files
			continue
		}
		tcp := conn.(*net.TCPConn)
		if files != nil {
			if files.give(outgoingTicket, tcp) != nil {
				reset(tcp)
			}
			tcp.Close() // our copy
			continue
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				forward(tcp, session)
			}()
		default:
			reset(tcp)
		}
	}
}

// forward connects a program's connection with a stream to the gateway.
func forward(c *net.TCPConn, session *yamux.Session) {
	out, err := outgoingOf(c)
	if err != nil {
		reset(c)
		return
	}
	stream, err := openEgress(session, out)
	if err != nil {
		reset(c)
		return
	}
	_ = stream.SetDeadline(time.Time{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(stream, c)
		_ = stream.Close() // this direction
	}()
	_, _ = io.Copy(c, stream)
	// The gateway has closed its direction. A program that goes on sending has a while.
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(closeTimeout))
	<-sent
	_ = c.Close()
}

// reportRejected sends the gateway what the packet filter has rejected.
func reportRejected(session *yamux.Session, d rejected.Datagram) {
	out := outgoing{Op: opRejectedUDP, Address: d.To.String()}
	if d.ICMP {
		out.Op = opRejectedICMP
	}
	if stream, err := openEgress(session, out); err == nil {
		_ = stream.Close()
	}
}

// inherited is a file descriptor that the program had when it was executed. Processes that
// it starts do not get it.
func inherited(fd int) *os.File {
	unix.CloseOnExec(fd)
	_ = unix.SetNonblock(fd, true) // so that closing it ends a read
	return os.NewFile(uintptr(fd), "rejected packets")
}

// outgoingOf is what a connection to the guest's port is.
func outgoingOf(c *net.TCPConn) (outgoing, error) {
	to, err := originalDestination(c)
	switch {
	case err != nil:
		return outgoing{}, err
	case to == c.LocalAddr().(*net.TCPAddr).AddrPort():
		return outgoing{Op: opProxy}, nil
	case to.Port() == 53:
		return outgoing{Op: opDNS}, nil // DNS over TCP has the form of the stream
	}
	return outgoing{Op: opConnect, Address: to.String()}, nil
}

// openEgress opens a stream and waits until the gateway has accepted the connection.
func openEgress(session *yamux.Session, out outgoing) (*yamux.Stream, error) {
	stream, err := session.OpenStream()
	if err != nil {
		return nil, err
	}
	_ = stream.SetDeadline(time.Now().Add(openTimeout))
	err = writeLine(stream, out)
	var line []byte
	if err == nil {
		line, err = readLine(stream)
	}
	var resp response
	if err == nil {
		err = json.Unmarshal(line, &resp)
	}
	if err == nil && resp.Error != "" {
		err = errors.New(resp.Error)
	}
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return stream, nil
}

// originalDestination returns where a program connected to, before the redirect
// (netfilter's SO_ORIGINAL_DST). For a connection that was not redirected it is the
// local address.
func originalDestination(c *net.TCPConn) (netip.AddrPort, error) {
	local := c.LocalAddr().(*net.TCPAddr).AddrPort()
	raw, err := c.SyscallConn()
	if err != nil {
		return local, err
	}
	to := local
	controlErr := raw.Control(func(fd uintptr) {
		if local.Addr().Is4() {
			// A sockaddr_in fits into the first 16 bytes of this type.
			var got *unix.IPv6Mreq
			if got, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); err == nil {
				b := got.Multiaddr
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
			}
			return
		}
		// A sockaddr_in6 is the first member of this type.
		var got *unix.IPv6MTUInfo
		if got, err = unix.GetsockoptIPv6MTUInfo(int(fd), unix.IPPROTO_IPV6, unix.SO_ORIGINAL_DST); err == nil {
			port := binary.NativeEndian.AppendUint16(nil, got.Addr.Port)
			to = netip.AddrPortFrom(netip.AddrFrom16(got.Addr.Addr), binary.BigEndian.Uint16(port))
		}
	})
	if controlErr != nil {
		return local, controlErr
	}
	if errors.Is(err, unix.ENOENT) {
		return local, nil
	}
	return to, err
}

// receiveQuestions sends each DNS question over UDP to the gateway, and its answer back.
func receiveQuestions(conn net.PacketConn, session *yamux.Session, slots chan struct{}) {
	for {
		buf := make([]byte, maxDatagram)
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of an earlier answer that could not be delivered
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				if answer, err := question(session, buf[:n]); err == nil {
					_, _ = conn.WriteTo(answer, from)
				}
			}()
		default: // the program asks again
		}
	}
}

func question(session *yamux.Session, message []byte) ([]byte, error) {
	stream, err := openEgress(session, outgoing{Op: opDNS})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	_ = stream.SetDeadline(time.Now().Add(dnsTimeout))
	if _, err := stream.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(stream, length[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err = io.ReadFull(stream, answer)
	return answer, err
}
