package guest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/toolhaven/toolhaven/test/local"
)

// family starts a process that ignores SIGTERM, with a daemon.
func family(t *testing.T, g *running) (pids []string) {
	t.Helper()
	p := g.spawn(t, "sh", "-c", `trap '' TERM; setsid sleep 1000 & echo $!; read x; sleep 1000`)
	return []string{readWord(t, p)}
}

func TestLine_EndStopsEverything(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cut  func(*running)
	}{
		{"the gateway closes it", func(g *running) { g.Close() }},
		{"the gateway is killed", func(g *running) { g.stdin.Close() }},
		{"the gateway hangs up", func(g *running) { _ = g.HangUp() }},
		{"the engine stops the container", func(g *running) { g.cmd.Process.Signal(syscall.SIGTERM) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := startGuest(t)
			pids := family(t, g)
			polite := g.spawn(t, "cat")
			stubborn := g.spawn(t, "sh", "-c", `trap '' TERM; echo up; while :; do sleep 0.05; done`)
			readWord(t, stubborn)
			// A process inside execve(2) has no environment with the mark.
			eventually(t, "four processes run", func() bool { return len(g.processes(t)) >= 4 })
			tt.cut(g)
			g.mustExit(t, patience)
			if left := g.processes(t); len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
			for _, pid := range pids {
				// An orphan is reaped by another process, later.
				eventually(t, pid+" is gone", func() bool { return !alive(t, pid) })
			}
			within(t, patience, "the end of the line", func() {
				<-g.Done()
				for _, p := range []Process{polite, stubborn} {
					// The exit status was received, or the line was lost before.
					if err := p.Wait(); err == nil && p == stubborn {
						t.Error("a killed process has exit status 0")
					}
				}
			})
			if _, err := g.Spawn(t.Context(), []string{"true"}); err == nil {
				t.Error("a process started after the end")
			}
		})
	}
}

func TestLine_CallsHonourContext(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	local.Freeze(t, g.cmd.Process.Pid) // it does not answer
	ctx := short(t, 100*time.Millisecond)
	within(t, patience, "a spawn", func() {
		if _, err := g.Spawn(ctx, []string{"sleep", "1000"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("spawn: %v", err)
		}
	})
	within(t, patience, "a dial", func() {
		if _, err := g.Dial(ctx, "127.0.0.1:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: %v", err)
		}
	})
	g.cmd.Process.Signal(syscall.SIGCONT)
	// The abandoned process is started now, and must be ended.
	if got, err := g.output(t, "echo", "there"); got != "there" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	eventually(t, "the abandoned process has ended", func() bool { return len(g.processes(t)) == 0 })
}

func TestDial(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serverDone := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		serverDone <- err
	}()
	c, err := g.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("%q, %v", buf, err)
	}
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var timeout net.Error
	if _, err := c.Read(buf); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a read past its deadline: %v", err)
	}
	c.SetReadDeadline(time.Time{})
	woken := make(chan error, 1)
	go func() { _, err := c.Read(make([]byte, 1)); woken <- err }()
	c.Close()
	within(t, patience, "closing", func() {
		if err := <-woken; err == nil {
			t.Error("a read of a closed connection succeeded")
		}
		<-serverDone // the server sees the end too
	})
	if _, err := c.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := c.Write(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	eventually(t, "no stream left", func() bool { return g.session.NumStreams() == 0 })
}

// A connection that is closed while the server still writes must not keep the guest
// writing.
func TestDial_ClosedUnread(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		for err == nil {
			_, err = c.Write(make([]byte, 64<<10))
		}
	}()
	c, err := g.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(c, make([]byte, 1<<20))
	c.Close()
	within(t, patience, "the end of the server's connection", func() { <-ended })
	eventually(t, "no stream left", func() bool { return g.session.NumStreams() == 0 })
}

func TestDial_ServerCloses(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			io.WriteString(c, "bye")
			c.Close()
		}
	}()
	c, err := g.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); string(got) != "bye" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDial_Refused(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	_, err = g.Dial(t.Context(), address)
	want := "nothing listens on " + address + " in the container (connection refused)"
	if err == nil || !strings.HasPrefix(err.Error(), want) { // the hint depends on what else listens
		t.Errorf("error is %v, want %s", err, want)
	}
	if _, err = g.Dial(t.Context(), "not an address"); err == nil || !strings.Contains(err.Error(), "not an address") {
		t.Errorf("a bad address: %v", err)
	}
}

func TestDial_RefusedAtOneOfTwoAddresses(t *testing.T) {
	t.Parallel()
	free, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	l, err := net.Listen("tcp", net.JoinHostPort("::1", port))
	if err != nil {
		t.Skip("this machine has no IPv6:", err)
	}
	defer l.Close()
	_, err = startGuest(t).Dial(t.Context(), net.JoinHostPort("127.0.0.1", port))
	if err == nil || !strings.Contains(err.Error(), "that port of another address, which --target-host can name") {
		t.Errorf("the error has no hint at another address: %v", err)
	}
}

func TestLine_Ports(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ports, err := g.Ports(t.Context()); err != nil || !slices.Contains(ports, l.Addr().(*net.TCPAddr).Port) {
		t.Errorf("%s is not among %v (%v)", l.Addr(), ports, err)
	}
}

// A malformed first line is answered with an error or not at all, and other streams
// go on.
func TestServe_HostileRequests(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	tests := []struct{ name, line, want string }{
		{"unknown operation", `{"op":"reboot"}`, `unknown operation "reboot"`},
		{"no operation", `{}`, "unknown operation"},
		{"no JSON", `hello`, "not understood"},
		{"empty", ``, "not understood"},
		{"two values", `{"op":"wait"} {"op":"wait"}`, "more than one value"},
		{"unknown key", `{"op":"wait","shell":true}`, "unknown field"},
		{"wrong type", `{"op":"spawn","argv":"sh -c id"}`, "not understood"},
		{"no such process", `{"op":"wait","process":12345}`, "there is no process 12345"},
		{"negative process", `{"op":"kill","process":-1}`, "there is no process -1"},
		{"grace without end", `{"op":"kill","process":1,"graceMs":9000000000}`, "grace"},
		{"empty program", `{"op":"spawn","argv":[""]}`, "needs a program"},
		{"a line without end", strings.Repeat("x", maxLine+1), "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := g.session.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(s, tt.line+"\n"); err != nil {
				t.Fatal(err)
			}
			line, err := readLine(s)
			if err != nil {
				t.Fatal(err)
			}
			var resp response
			if err := json.Unmarshal(line, &resp); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(resp.Error, tt.want) {
				t.Errorf("answer is %q, want %q", resp.Error, tt.want)
			}
		})
	}
	for range 500 { // opened and left
		s, err := g.session.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if got, err := g.output(t, "echo", "fine"); got != "fine" || err != nil {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

func TestConnect_NotAGuest(t *testing.T) {
	t.Parallel()
	theirs, ours := net.Pipe()
	line, err := Connect(ours, ours, ours.Close)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	go func() {
		go io.Copy(io.Discard, theirs)
		io.WriteString(theirs, "standard_init_linux.go:228: exec user process caused: exec format error\n")
	}()
	within(t, patience, "the failure", func() {
		if _, err := line.Spawn(t.Context(), []string{"true"}); !errors.Is(err, ErrLineLost) {
			t.Errorf("spawn: %v", err)
		}
		<-line.Done()
	})
}

func TestConnect_MalformedResponse(t *testing.T) {
	t.Parallel()
	theirs, ours := net.Pipe()
	line, err := Connect(ours, ours, ours.Close)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	session, err := yamux.Server(theirs, lineConfig(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	go func() {
		for {
			s, err := session.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				readLine(s)
				io.WriteString(s, "pardon?\n")
			}()
		}
	}()
	if _, err := line.Spawn(t.Context(), []string{"true"}); err == nil || !strings.Contains(err.Error(), "answered something else") {
		t.Errorf("spawn: %v", err)
	}
}

func TestGuest_RefusesTerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Fatal("this test needs script(1) for a terminal:", err)
	}
	out, err := exec.CommandContext(short(t, patience), "script", "-qec", guestProgram, "/dev/null").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "started by thv inside the containers") {
		t.Errorf("%v: %s", err, out)
	}
}
