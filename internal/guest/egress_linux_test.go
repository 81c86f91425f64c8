package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"
)

// echoing is an Egress that echoes what it receives. It refuses connections to port 1.
type echoing struct{ seen chan string }

func (e *echoing) Connect(_ context.Context, to netip.AddrPort, accept func() (net.Conn, error)) {
	e.seen <- "connect " + to.String()
	if to.Port() == 1 {
		return
	}
	if conn, err := accept(); err == nil {
		e.echo(conn)
	}
}

func (e *echoing) Proxy(_ context.Context, conn net.Conn) {
	e.seen <- "proxy"
	e.echo(conn)
}

func (e *echoing) DNS(_ context.Context, conn net.Conn) {
	e.seen <- "dns"
	e.echo(conn)
}

func (e *echoing) Rejected(protocol string, to netip.AddrPort) {
	e.seen <- "rejected " + protocol + " " + to.String()
}

func (e *echoing) echo(conn net.Conn) {
	_, _ = io.Copy(conn, conn)
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	_ = conn.Close()
}

// egressLine joins both ends of a line: the session is the guest's.
func egressLine(t *testing.T) (*yamux.Session, *echoing) {
	t.Helper()
	near, far := net.Pipe()
	session, err := yamux.Server(near, lineConfig(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	line, err := newLine(far, far)
	if err != nil {
		t.Fatal(err)
	}
	e := &echoing{seen: make(chan string, 10)}
	served := make(chan struct{})
	s := &egressServer{ctx: t.Context(), egress: e, slots: make(chan struct{}, maxConnections)}
	go func() { defer close(served); s.streams(line.session) }()
	t.Cleanup(func() { line.Close(); session.Close(); <-served })
	return session, e
}

// A program's connection is carried in both directions, and each ends by itself.
func TestEgress_Forward(t *testing.T) {
	t.Parallel()
	session, e := egressLine(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); forward(accepted.(*net.TCPConn), session) }()
	// It was not redirected, so it is one of a program that uses the proxy.
	if got := <-e.seen; got != "proxy" {
		t.Errorf("got %s", got)
	}
	text := strings.Repeat("hello", 100_000)
	go func() {
		_, _ = io.WriteString(program, text)
		_ = program.(*net.TCPConn).CloseWrite()
	}()
	program.SetDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(program); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	<-done
}

func TestEgress_Streams(t *testing.T) {
	t.Parallel()
	session, e := egressLine(t)
	stream, err := openEgress(session, outgoing{Op: opConnect, Address: "192.0.2.1:443"})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-e.seen; got != "connect 192.0.2.1:443" {
		t.Errorf("got %s", got)
	}
	stream.Close()
	if _, err := openEgress(session, outgoing{Op: opConnect, Address: "192.0.2.1:1"}); err == nil {
		t.Error("a connection that was refused was opened")
	}
	<-e.seen
	if _, err := openEgress(session, outgoing{Op: "spawn"}); err == nil {
		t.Error("another operation was accepted")
	}
	if _, err := openEgress(session, outgoing{Op: opRejectedUDP, Address: "192.0.2.1:443"}); err != nil {
		t.Error(err)
	}
	if got := <-e.seen; got != "rejected udp 192.0.2.1:443" {
		t.Errorf("got %s", got)
	}
	message := []byte("a question")
	answer, err := question(session, message)
	if err != nil || string(answer) != string(message) {
		t.Errorf("%q, %v", answer, err)
	}
	session.Close()
	if _, err := question(session, message); err == nil {
		t.Error("answered without a line")
	}
}

// Where the guest can hand a connection over, the gateway has the program's own.
func TestEgress_HandedOver(t *testing.T) {
	t.Parallel()
	near, far := unixPair(t)
	h := newHandover(near)
	e := &echoing{seen: make(chan string, 10)}
	s := &egressServer{ctx: t.Context(), egress: e, slots: make(chan struct{}, 1)}
	h.mu.Lock()
	h.outgoing = s.handed
	h.mu.Unlock()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connect := func() *net.TCPConn {
		program, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { program.Close() })
		program.SetDeadline(time.Now().Add(time.Minute))
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if err := (&giver{conn: far}).give(outgoingTicket, accepted.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
		return program.(*net.TCPConn)
	}
	program := connect()
	if got := <-e.seen; got != "proxy" {
		t.Errorf("got %s", got)
	}
	// There is room for one.
	if _, err := connect().Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("a connection too many: %v", err)
	}
	if _, err := io.WriteString(program, "hello"); err != nil {
		t.Fatal(err)
	}
	_ = program.CloseWrite()
	if got, err := io.ReadAll(program); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// unixPair is a connection, both ends.
func unixPair(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends[0], ends[1]
}
