package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func openShortcut(t *testing.T) *Shortcut {
	t.Helper()
	// A path of a test's own would be too long for a socket.
	parent, err := os.MkdirTemp("", "line")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	s, err := OpenShortcut(filepath.Join(parent, "x"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The tests of a guest that uses its streams hold with a shortcut, too.
func TestOverTheShortcut(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T){
		"echoes": TestSpawn_Echo, "arguments": TestSpawn_Arguments,
		"environment": TestSpawn_EnvironmentAndDirectory, "standard error": TestSpawn_StandardError,
		"files": TestSpawn_InheritsNoOtherFiles, "how it ended": TestWait_ExitStatus, "cannot be run": TestSpawn_Failures,
		"many at once": TestSpawn_ManyAtOnce, "big data": TestSpawn_LargeData, "last words": TestSpawn_OutputOfEndedProcess,
		"not read": TestSpawn_StalledStreamsAreIndependent, "closed early": TestSpawn_ProcessClosesItsStreams,
		"stop": TestStop_Steps, "stop a listener": TestStop_Listener, "listeners": TestLine_EndStopsListeners,
		"stop at once": TestStop_ContextEnds, "what it started": TestSpawn_DescendantsEndWithProcess,
		"daemons": TestSpawn_DaemonLivesWithProcess, "orphans": TestServe_ReapsOrphans, "the line is hidden": TestServe_LineIsHiddenFromProcesses,
		"everything ends": TestLine_EndStopsEverything, "contexts": TestLine_CallsHonourContext,
		"dial": TestDial, "dial unread": TestDial_ClosedUnread, "the server ends it": TestDial_ServerCloses,
		"refused": TestDial_Refused, "hostile requests": TestServe_HostileRequests,
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

func TestShortcut(t *testing.T) {
	t.Parallel()
	s := openShortcut(t)
	g := startGuestOver(t, s)
	if g.detour != "" {
		t.Fatalf("it did not: %s", g.detour)
	}
	// A server that starts later and knows the path does not find the socket.
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's directory: %v", err)
	}
	p := g.spawn(t, "sh", "-c", "echo warned >&2; cat; echo last >&2")
	if _, err := io.WriteString(p.Stdin(), "hello"); err != nil {
		t.Fatal(err)
	}
	p.Stdin().Close()
	if got, err := io.ReadAll(p.Stdout()); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	eventually(t, "standard error", func() bool { return g.stderr.String() == "warned\nlast\n" })
}

// Files that were handed over are closed, also if the caller has left.
func TestShortcut_ClosesHandedOverFiles(t *testing.T) {
	g := startGuestOver(t, openShortcut(t))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if _, err := g.output(t, "true"); err != nil {
		t.Fatal(err)
	}
	before := len(openFiles(t))
	defer func() {
		if t.Failed() {
			t.Logf("%d files were open before, now: %q", before, openFiles(t))
		}
	}()
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		if p, err := g.Spawn(ctx, []string{"cat"}); err == nil {
			_ = p.Stop(t.Context())
		}
		if c, err := g.Dial(ctx, listener.Addr().String()); err == nil {
			c.Close()
		}
		cancel()
		if _, err := g.output(t, "echo", "read to its end"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "as many open files as before", func() bool { return len(openFiles(t)) <= before })
}

// openFiles returns what the open files of this process refer to.
func openFiles(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, f := range files {
		if target, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			targets = append(targets, target)
		}
	}
	return targets
}

func TestShortcut_Unreachable(t *testing.T) {
	t.Parallel()
	missing := startGuestOver(t, openShortcut(t), func(cmd *exec.Cmd) { cmd.Args[1] = "/nowhere/s" })
	if !strings.Contains(missing.detour, "no such file") {
		t.Errorf("the reason is %q", missing.detour)
	}
	p := missing.spawn(t, "echo", "over the streams")
	if got, err := io.ReadAll(p.Stdout()); string(got) != "over the streams\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// The output of a container must begin with the guest's choice.
func TestShortcut_RejectsOtherPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, output, want string }{
		{"ends at once", "", ErrLineLost.Error()},
		{"writes something else", "hello\n", `began with "hello"`},
		{"writes more than the word", overShortcut + " please\n", "began with"},
		{"never ends its line", strings.Repeat("x", 2*maxChoice), ErrLineLost.Error()},
		{"announces the shortcut and does not connect", overShortcut + "\n", "timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openShortcut(t)
			out, theirs := io.Pipe()
			go func() {
				_, _ = io.WriteString(theirs, tt.output)
				theirs.Close()
			}()
			_, _, err := ConnectShortcut(t.Context(), nopCloser{io.Discard}, out, out.Close, s)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket's directory: %v", err)
			}
		})
	}
	t.Run("writes nothing", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		out, _ := io.Pipe()
		defer out.Close()
		if _, _, err := ConnectShortcut(ctx, nopCloser{io.Discard}, out, out.Close, openShortcut(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
