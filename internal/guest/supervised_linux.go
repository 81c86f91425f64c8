package guest

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a server process, leader of its session and process group.
type process struct {
	supervisor *supervisor
	id         int64
	pid        int
	listens    bool // see request

	ready  chan struct{} // closed when the pipes are set
	stdin  *os.File
	stdout *os.File

	reaped       bool // guarded by supervisor.mu: pid is no longer ours
	code, signal int  // set before done is closed
	done         chan struct{}
}

// forkExec starts a process that inherits the three files and nothing else: all
// others of ours are close-on-exec. It does not wait for it, the reaper does.
func forkExec(path string, argv, env []string, stdin, stdout, stderr *os.File) (int, error) {
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// finish ends what the process leaves behind.
func (p *process) finish() {
	<-p.ready
	sweep(p.supervisor.markOf(p.id))
	close(p.done)
	p.closeStdin()
	// Whatever still holds the pipe's other end has escaped; copyStdout takes
	// what is there and does not wait for more.
	_ = p.stdout.SetReadDeadline(time.Now())
}

func (p *process) closeStdin() {
	<-p.ready
	p.stdin.Close() // also makes a write to it return
}

// send signals the process's group, unless it has ended.
func (p *process) send(sig unix.Signal) {
	p.supervisor.mu.Lock()
	defer p.supervisor.mu.Unlock()
	if p.reaped {
		return
	}
	_ = unix.Kill(-p.pid, sig)
	if sig != unix.SIGKILL {
		_ = unix.Kill(-p.pid, unix.SIGCONT) // a stopped process cannot heed it
	}
}

// end is the shutdown of a stdio server (MCP basic/lifecycle, Shutdown) after
// its input was closed, which the gateway does: grace, SIGTERM, grace, SIGKILL.
// A listener has no such input: it is sent SIGTERM at once, and gets both graces
// from there. end does not wait for the end after SIGKILL.
func (p *process) end(grace time.Duration) {
	alone := []*process{p}
	if grace > 0 {
		if p.listens {
			p.send(unix.SIGTERM)
		}
		if endedWithin(alone, grace) {
			return
		}
		if !p.listens {
			p.send(unix.SIGTERM)
		}
		p.closeStdin()
		if endedWithin(alone, grace) {
			return
		}
	}
	p.send(unix.SIGKILL)
}

// copyStdout passes the process's output on until the process has closed it, or
// has ended and everything it wrote has been read, or w fails.
func (p *process) copyStdout(w io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.stdout.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drainStdout(w, buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// drainStdout passes on what is in the pipe, without waiting for more.
func (p *process) drainStdout(w io.Writer, buf []byte) {
	if p.stdout.SetReadDeadline(time.Time{}) != nil {
		return
	}
	pipe, err := p.stdout.SyscallConn()
	if err != nil {
		return
	}
	for {
		n := 0
		err := pipe.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf)
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
	}
}
