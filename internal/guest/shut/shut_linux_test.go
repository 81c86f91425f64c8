//go:build integration

package shut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The rules are tried on the kernel, in a network namespace of the test's own. Its
// one interface is a TUN device (tuntap.txt of the kernel's documentation): what a
// caller from outside would send is written to it byte by byte, and what the
// namespace sends is read from it.
var (
	inside  = netip.MustParseAddr("10.99.0.1")
	outside = netip.MustParseAddr("10.99.0.2")
)

const (
	openPort = 8080
	shutPort = 8081
	udpPort  = 8082
)

// TestInstall runs this test again in a new network namespace.
func TestInstall(t *testing.T) {
	if os.Getenv("THV_TEST_NAMESPACE") == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestInstall$", "-test.v")
		cmd.Env = append(os.Environ(), "THV_TEST_NAMESPACE=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	w := newWire(t)
	for _, port := range []int{openPort, shutPort} {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	datagrams, err := net.ListenPacket("udp", fmt.Sprintf(":%d", udpPort))
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()

	// Without the filter, so that the test can fail.
	w.want(t, "a connection, when nothing is shut", w.segment(shutPort, synBit), synBit|ackBit)
	w.unsolicited(t, datagrams, true)

	for range 2 { // the second replaces the first
		if err := Install([]uint16{openPort}); err != nil {
			t.Fatal(err)
		}
	}
	const rst = 0x04
	w.want(t, "a connection to a port that is open", w.segment(openPort, synBit), synBit|ackBit)
	w.want(t, "a connection to a port that is not", w.segment(shutPort, synBit), rst|ackBit)
	// A receiver takes these for an opening as well (RFC 9293 section 3.10.7.2).
	w.want(t, "one with data to push", w.segment(shutPort, synBit|0x08), rst|ackBit)
	w.want(t, "one with explicit congestion notification", w.segment(shutPort, synBit|0xc0), rst|ackBit)
	w.unsolicited(t, datagrams, false)
	w.outgoing(t)
	w.loopback(t)

	if err := install(plainRules([]uint16{openPort}), nil); err != nil {
		t.Fatal(err)
	}
	w.want(t, "on a plain kernel, a connection to a port that is open", w.segment(openPort, synBit), synBit|ackBit)
	w.want(t, "on a plain kernel, a connection to a port that is not", w.segment(shutPort, synBit), silence)
	w.outgoing(t)
	w.loopback(t)
}

// wire is the other end of the namespace's interface.
type wire struct {
	tun  *os.File
	port uint16 // the next caller's
}

func newWire(t *testing.T) *wire {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	request, err := unix.NewIfreq("outside")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatal(err)
	}
	w := &wire{tun: os.NewFile(uintptr(fd), "tun"), port: 40000}
	t.Cleanup(func() { w.tun.Close() })
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(control)
	address := inside.As4()
	for _, step := range []struct {
		name string
		code uint
		set  func(*unix.Ifreq) error
	}{
		{"lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }},
		{"outside", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) }},
		{"outside", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{"outside", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }},
	} {
		r, err := unix.NewIfreq(step.name)
		if err == nil {
			err = step.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(control, step.code, r)
		}
		if err != nil {
			t.Fatalf("prepare %s: %v", step.name, err)
		}
	}
	return w
}

// segment is a TCP segment from outside, of a new caller each time.
func (w *wire) segment(port uint16, flags byte) []byte {
	w.port++
	return tcp(w.port, port, 1000, 0, flags)
}

// silence means no answer.
const silence = 0xff

const (
	// patience bounds the wait for an expected packet.
	patience = time.Minute
	// atOnce is the wait for a packet that must not arrive: without the filter it
	// arrives at once.
	atOnce = 500 * time.Millisecond
)

// want sends a segment and compares the flags of what is answered.
func (w *wire) want(t *testing.T, what string, segment []byte, flags byte) {
	t.Helper()
	caller := binary.BigEndian.Uint16(segment[20:])
	w.send(t, segment)
	within := patience
	if flags == silence {
		within = atOnce
	}
	answer := w.receive(t, unix.IPPROTO_TCP, within, func(p []byte) bool { return binary.BigEndian.Uint16(p[22:]) == caller })
	got := byte(silence)
	if answer != nil {
		got = answer[33] &^ 0xc0 // but for congestion
	}
	if got != flags {
		t.Errorf("%s: answered with flags %#x, want %#x", what, got, flags)
	}
}

// unsolicited sends a datagram that is not an answer, and checks whether it arrives.
func (w *wire) unsolicited(t *testing.T, at net.PacketConn, want bool) {
	t.Helper()
	for range 2 { // the first must not open the way for the second
		w.send(t, udp(5353, udpPort, "unsolicited"))
		within := patience
		if !want {
			within = atOnce
		}
		at.SetReadDeadline(time.Now().Add(within))
		_, _, err := at.ReadFrom(make([]byte, 100))
		if got := err == nil; got != want {
			t.Errorf("a datagram from outside was received: %t, want %t (%v)", got, want, err)
		}
	}
}

// outgoing checks connections and datagrams that begin in the container.
func (w *wire) outgoing(t *testing.T) {
	t.Helper()
	connected := make(chan error, 1)
	go func() {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(outside, 443).String(), patience)
		if err == nil {
			c.Close()
		}
		connected <- err
	}()
	syn := w.receive(t, unix.IPPROTO_TCP, patience, func(p []byte) bool { return binary.BigEndian.Uint16(p[22:]) == 443 })
	if syn == nil {
		t.Fatal("no connection request arrived")
	}
	w.send(t, tcp(443, binary.BigEndian.Uint16(syn[20:]), 1, binary.BigEndian.Uint32(syn[24:])+1, synBit|ackBit))
	if err := <-connected; err != nil {
		t.Errorf("connect to the outside: %v", err)
	}

	c, err := net.Dial("udp", netip.AddrPortFrom(outside, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	question := w.receive(t, unix.IPPROTO_UDP, patience, func(p []byte) bool { return binary.BigEndian.Uint16(p[22:]) == 53 })
	if question == nil {
		t.Fatal("no datagram arrived")
	}
	w.send(t, udp(53, binary.BigEndian.Uint16(question[20:]), "answer"))
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	answer := make([]byte, 100)
	if n, err := c.Read(answer); err != nil || string(answer[:n]) != "answer" {
		t.Errorf("the answer is %q, %v", answer[:n], err)
	}
}

// loopback checks connections inside, also to the container's own address.
func (w *wire) loopback(t *testing.T) {
	t.Helper()
	for _, host := range []string{"127.0.0.1", inside.String(), "::1"} {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(host, fmt.Sprint(shutPort)), patience)
		if err != nil {
			t.Errorf("from inside: %v", err)
			continue
		}
		c.Close()
	}
}

func (w *wire) send(t *testing.T, packet []byte) {
	t.Helper()
	if _, err := w.tun.Write(packet); err != nil {
		t.Fatal(err)
	}
}

// receive waits for a packet of that protocol to the outside; nil if none arrives.
func (w *wire) receive(t *testing.T, protocol byte, within time.Duration, wanted func([]byte) bool) []byte {
	t.Helper()
	w.tun.SetReadDeadline(time.Now().Add(within))
	for {
		packet := make([]byte, 2000)
		n, err := w.tun.Read(packet)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		// IPv4 without options, to us (RFC 791).
		if n >= 28 && packet[0] == 0x45 && packet[9] == protocol && [4]byte(packet[16:20]) == outside.As4() && wanted(packet[:n]) {
			return packet[:n]
		}
	}
}

// tcp is a segment without options or data (RFC 9293 section 3.1).
func tcp(from, to uint16, seq, ack uint32, flags byte) []byte {
	s := make([]byte, 20)
	binary.BigEndian.PutUint16(s[0:], from)
	binary.BigEndian.PutUint16(s[2:], to)
	binary.BigEndian.PutUint32(s[4:], seq)
	binary.BigEndian.PutUint32(s[8:], ack)
	s[12], s[13] = 5<<4, flags
	binary.BigEndian.PutUint16(s[14:], 1<<15) // window
	binary.BigEndian.PutUint16(s[16:], checksum(append(pseudoHeader(unix.IPPROTO_TCP, len(s)), s...)))
	return ip(unix.IPPROTO_TCP, s)
}

// udp is a datagram without checksum (RFC 768).
func udp(from, to uint16, text string) []byte {
	d := make([]byte, 8, 8+len(text))
	binary.BigEndian.PutUint16(d[0:], from)
	binary.BigEndian.PutUint16(d[2:], to)
	binary.BigEndian.PutUint16(d[4:], uint16(8+len(text)))
	return ip(unix.IPPROTO_UDP, append(d, text...))
}

// ip is a packet from outside (RFC 791 section 3.1).
func ip(protocol byte, payload []byte) []byte {
	h := make([]byte, 20)
	from, to := outside.As4(), inside.As4()
	h[0], h[8], h[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(payload)))
	copy(h[12:], from[:])
	copy(h[16:], to[:])
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return slices.Concat(h, payload)
}

func pseudoHeader(protocol byte, length int) []byte {
	from, to := outside.As4(), inside.As4()
	h := append(append([]byte{}, from[:]...), to[:]...)
	return append(h, 0, protocol, byte(length>>8), byte(length))
}

// checksum is that of the Internet (RFC 1071), of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
