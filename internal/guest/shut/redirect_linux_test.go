//go:build integration

package shut

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRedirect runs this test again in a new network namespace, which has loopback only.
func TestRedirect(t *testing.T) {
	if os.Getenv("THV_TEST_NAMESPACE") == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestRedirect$", "-test.v")
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
	loopbackUp(t)
	const tcpPort, dnsPort = 13128, 13053
	for range 2 { // the second replaces the first
		if err := Redirect(nil, tcpPort, dnsPort); err != nil {
			t.Fatal(err)
		}
	}
	record, err := Rejected()
	if err != nil {
		t.Fatalf("the kernel does not record what is rejected: %v", err)
	}
	defer unix.Close(record)
	tcp, err := net.Listen("tcp", fmt.Sprintf(":%d", tcpPort))
	if err != nil {
		t.Fatal(err)
	}
	dns, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", dnsPort))
	if err != nil {
		t.Fatal(err)
	}
	own, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}

	for _, address := range []string{"192.0.2.1:443", "169.254.169.254:80", "10.0.0.1:53", "[2001:db8::1]:443"} {
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		arrived, err := tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if address[0] != '[' {
			raw, err := arrived.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			_ = raw.Control(func(fd uintptr) {
				to, err := unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST)
				if err != nil {
					t.Errorf("%s: its destination: %v", address, err)
					return
				}
				got := fmt.Sprintf("%s:%d", net.IP(to.Multiaddr[4:8]), int(to.Multiaddr[2])<<8|int(to.Multiaddr[3]))
				if got != address {
					t.Errorf("%s arrived as one to %s", address, got)
				}
			})
		}
		c.Close()
		arrived.Close()
	}

	question, err := net.Dial("udp", "192.0.2.53:53")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := question.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	dns.SetReadDeadline(time.Now().Add(patience))
	n, from, err := dns.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "question" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if _, err := dns.WriteTo([]byte("answer"), from); err != nil {
		t.Fatal(err)
	}
	question.SetReadDeadline(time.Now().Add(patience))
	if n, err := question.Read(buf); err != nil || string(buf[:n]) != "answer" {
		t.Errorf("the answer is %q, %v", buf[:n], err)
	}

	// QUIC and every other datagram is rejected at once.
	quic, err := net.Dial("udp", "192.0.2.1:443")
	if err != nil {
		t.Fatal(err)
	}
	_, err = quic.Write([]byte("x"))
	if err == nil {
		quic.SetReadDeadline(time.Now().Add(patience))
		_, err = quic.Read(buf)
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a datagram to port 443: %v", err)
	}
	// It is recorded, with its destination.
	if err := unix.SetsockoptTimeval(record, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 8<<10)
	n, err = unix.Read(record, message)
	if err != nil || !bytes.Contains(message[:n], []byte{192, 0, 2, 1}) {
		t.Errorf("the record is %x, %v", message[:max(n, 0)], err)
	}

	// The container itself is reached as before.
	c, err := net.DialTimeout("tcp", own.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if arrived, err := own.Accept(); err != nil {
		t.Error(err)
	} else {
		arrived.Close()
	}
	if c, err := net.DialTimeout("tcp", "127.0.0.11:8081", patience); err == nil {
		c.Close()
		t.Error("the engine's resolver can be reached")
	}
}

func loopbackUp(t *testing.T) {
	t.Helper()
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(control)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	r.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(control, unix.SIOCSIFFLAGS, r); err != nil {
		t.Fatal(err)
	}
}
