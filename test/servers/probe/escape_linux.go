package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// addEscapes adds a tool that tries to leave the container. It succeeds when the attempt
// does.
func addEscapes(s *mcp.Server) {
	ways := map[string]func() (string, error){
		"raw":          func() (string, error) { return socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP) },
		"packet":       func() (string, error) { return socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0x0300) },
		"namespace":    privilegedChild,
		"mount":        func() (string, error) { return "mounted", syscall.Mount("none", "/tmp", "tmpfs", 0, "") },
		"root":         func() (string, error) { return "root", syscall.Setuid(0) },
		"guest memory": func() (string, error) { return readable("/proc/1/mem") },
		"guest environment": func() (string, error) {
			b, err := os.ReadFile("/proc/1/environ")
			return string(b), err
		},
		"guest files": func() (string, error) {
			entries, err := os.ReadDir("/proc/1/fd")
			return fmt.Sprint(entries), err
		},
		"kernel settings": func() (string, error) {
			return "written", os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/escape"), 0o644)
		},
		"sockets":   connectAnySocket,
		"fork bomb": forkBomb,
	}
	add(s, "escape", "tries to leave the container", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		By     string `json:"by"`
		At     string `json:"at,omitempty"`
		Server string `json:"server,omitempty"`
	}) (string, error) {
		if in.By == "tls" {
			d := tls.Dialer{Config: &tls.Config{ServerName: in.Server, InsecureSkipVerify: true}}
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			c, err := d.DialContext(ctx, "tcp", in.At)
			if err != nil {
				return "", err
			}
			return "connected", c.Close()
		}
		switch in.By {
		case "ping":
			return ping(in.At)
		case "fill":
			return fill(ctx, in.At)
		case "http2":
			return http2(ctx, in.At)
		}
		way, ok := ways[in.By]
		if !ok {
			return "there is no such way", nil // succeeds, so that the test fails
		}
		return way()
	})
}

// fill writes 192 MiB into a directory, and waits for what happens then.
func fill(ctx context.Context, dir string) (string, error) {
	part := make([]byte, 4<<20)
	for n := range 48 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("fill-", n)), part, 0o600); err != nil {
			return "", err
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	return "filled", nil
}

// enterNetwork is the argument by which this program, as the root of a user namespace of its
// own, enters the network of the container.
const enterNetwork = "enter-network"

// privilegedChild starts a child with every privilege in a user namespace of its own, which
// some engines permit, and has it enter the container's network with them.
func privilegedChild() (string, error) {
	cmd := exec.Command("/proc/self/exe", enterNetwork)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// child does what the argument of a child says; it returns otherwise.
func child() {
	if len(os.Args) != 2 || os.Args[1] != enterNetwork {
		return
	}
	runtime.LockOSThread()
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()))
	if err == nil {
		err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("in the container's network, with privileges")
	os.Exit(0)
}

// http2 begins a connection of HTTP/2 without TLS (RFC 9113 section 3.4), and succeeds if the
// answer is a frame of it.
func http2(ctx context.Context, at string) (string, error) {
	c, err := dialTCP(ctx, at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	// The preface, and an empty SETTINGS frame (section 6.5).
	if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return "", err
	}
	header := make([]byte, 9)
	if _, err := io.ReadFull(c, header); err != nil {
		return "", err
	}
	if header[3] != 4 {
		return "", fmt.Errorf("the answer is not HTTP/2: %q", header)
	}
	return "answered", nil
}

// ping sends an ICMP echo request, which takes no privilege where net.ipv4.ping_group_range
// permits it.
func ping(at string) (string, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	to := &syscall.SockaddrInet4{Addr: netip.MustParseAddr(at).As4()}
	return "sent", syscall.Sendto(fd, []byte{8, 0, 0, 0, 0, 0, 0, 0}, 0, to)
}

func socket(family, kind, protocol int) (string, error) {
	fd, err := syscall.Socket(family, kind, protocol)
	if err != nil {
		return "", err
	}
	return "a socket", syscall.Close(fd)
}

func readable(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	return "open", f.Close()
}

// connectAnySocket connects to each Unix socket that is in the file system: of the engine,
// of the guest, or of anything else.
func connectAnySocket() (string, error) {
	paths := []string{"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"}
	err := filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil, path == "/proc", path == "/sys":
			return fs.SkipDir
		case d.Type()&fs.ModeSocket != 0:
			paths = append(paths, path)
		}
		return nil
	})
	for _, path := range paths {
		c, dialErr := net.Dial("unix", path)
		if dialErr == nil {
			c.Close()
			return path, nil
		}
		err = errors.Join(err, dialErr)
	}
	return "", err
}

// forkBomb starts processes until the kernel refuses, and ends them.
func forkBomb() (string, error) {
	const enough = 20000
	var children []int
	var refused error
	for len(children) < enough {
		pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if errno != 0 {
			refused = fmt.Errorf("after %d processes: %w", len(children), errno)
			break
		}
		if pid == 0 {
			for { // the child does nothing, and allocates nothing
				syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, uintptr(unsafe.Pointer(nil)), 0, 0)
			}
		}
		children = append(children, int(pid))
	}
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range children {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	if refused != nil {
		return "", refused
	}
	return strings.Repeat("fork ", 3), nil
}
