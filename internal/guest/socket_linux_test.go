package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// serving is a guest that serves a socket, and a line for drain after SIGTERM.
func serving(t *testing.T, drain string, argv ...string) (socket string, cmd *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "run", "line.sock")
	cmd = exec.Command(guestProgram, append([]string{"serve", "--socket", socket, "--drain", drain, "--"}, argv...)...)
	cmd.Stderr = &lockedBuffer{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		within(t, patience, "the end of the guest", func() {
			if err := <-ended; err != nil {
				t.Errorf("the guest: %v; %s", err, cmd.Stderr)
			}
		})
	})
	return socket, cmd
}

func connectSocket(t *testing.T, socket string) *Line {
	t.Helper()
	var line *Line
	eventually(t, "the guest accepts a line", func() bool {
		l, err := ConnectSocket(t.Context(), socket)
		line = l
		return err == nil
	})
	t.Cleanup(func() { line.Close() })
	return line
}

func TestServeSocket_RunsItsOwnCommand(t *testing.T) {
	t.Parallel()
	socket, _ := serving(t, "5m", "sh", "-c", `echo "$GREETING-$0"; cat`, "own")
	line := connectSocket(t, socket)
	for _, greeting := range []string{"first", "second"} {
		p, err := line.SpawnOwn(t.Context(), []string{"GREETING=" + greeting})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := readWord(t, p), greeting+"-own"; got != want {
			t.Errorf("the process wrote %q, want %q", got, want)
		}
	}
}

// A gateway that was killed is started again by the kubelet; the guest is not.
func TestServeSocket_ServesTheNextLine(t *testing.T) {
	t.Parallel()
	socket, _ := serving(t, "5m", "sh", "-c", `setsid sleep 1000 & echo $!; cat`)
	for range 3 {
		line := connectSocket(t, socket)
		p, err := line.SpawnOwn(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		daemon := readWord(t, p)
		if !alive(t, daemon) {
			t.Fatalf("%s does not run", daemon)
		}
		line.Close()
		eventually(t, "the processes of the line end", func() bool { return !alive(t, daemon) })
	}
}

func TestServe_SpawnNeedsACommand(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	if _, err := g.SpawnOwn(t.Context(), nil); err == nil || err.Error() != "start a process in the container: spawn needs a program to run" {
		t.Errorf("a guest without a command of its own: %v", err)
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "guest")
	for range 2 { // an init container may run twice
		if out, err := exec.Command(guestProgram, "install", path).CombinedOutput(); err != nil {
			t.Fatalf("install: %v\n%s", err, out)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o555 {
		t.Fatalf("installed with mode %v, %v", info.Mode(), err)
	}
	for _, wrong := range [][]string{{"install"}, {"install", "relative"}, {"serve"}, {"serve", "--socket", "relative", "--", "sh"}, {"serve", "--socket", "/x", "--"}} {
		if out, err := exec.Command(path, wrong...).CombinedOutput(); err == nil {
			t.Errorf("%v is accepted: %s", wrong, out)
		}
	}
}

// terminate sends SIGTERM to a guest while its process, which writes ready, serves the line.
func terminate(t *testing.T, line *Line, cmd *exec.Cmd) Process {
	t.Helper()
	p, err := line.SpawnOwn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := readWord(t, p); got != "ready" {
		t.Fatalf("the process wrote %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p
}

// A guest does not outlive its bound when the gateway stays: only its container is restarted.
func TestServeSocket_EndsWithItsDrain(t *testing.T) {
	t.Parallel()
	socket, cmd := serving(t, "200ms", "sh", "-c", "echo ready; cat")
	line := connectSocket(t, socket)
	terminate(t, line, cmd)
	eventually(t, "the guest ends", func() bool { return !alive(t, strconv.Itoa(cmd.Process.Pid)) })
}

// A pod that ends sends SIGTERM to the guest and the gateway at once: calls in flight end first.
func TestServeSocket_ServesTheLineToItsEnd(t *testing.T) {
	t.Parallel()
	socket, cmd := serving(t, "5m", "sh", "-c", `echo ready; read word; echo "$word"; cat`)
	line := connectSocket(t, socket)
	p := terminate(t, line, cmd)
	if _, err := line.SpawnOwn(t.Context(), nil); err != nil {
		t.Errorf("a process of a call that began after the signal: %v", err)
	}
	if _, err := p.Stdin().Write([]byte("late\n")); err != nil {
		t.Fatal(err)
	}
	if got := readWord(t, p); got != "late" {
		t.Errorf("the process wrote %q after the signal, want late", got)
	}
	line.Close()
	eventually(t, "the guest ends", func() bool { return !alive(t, strconv.Itoa(cmd.Process.Pid)) })
}
