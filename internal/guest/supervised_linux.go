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

	reaped       bool // guarded by supervisor.mu: the pid may be reused
	code, signal int  // set before done is closed
	done         chan struct{}
}

// forkExec starts a process that inherits these three files only: the guest's others
// are close-on-exec. The reaper waits for it.
func forkExec(path string, argv, env []string, stdin, stdout, stderr *os.File) (int, error) {
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// finish ends the processes that the process has left behind.
func (p *process) finish() {
	<-p.ready
	sweep(p.supervisor.markOf(p.id))
	close(p.done)
	p.closeStdin()
	// A process that still holds the pipe's other end has escaped: copyStdout reads
	// what is in the pipe and does not wait for more.
	_ = p.stdout.SetReadDeadline(time.Now())
}

func (p *process) closeStdin() {
	<-p.ready
	p.stdin.Close() // also makes a blocked write to it return
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
		_ = unix.Kill(-p.pid, unix.SIGCONT) // a stopped process cannot handle it
	}
}

// end is the shutdown of a stdio server (MCP basic/lifecycle, Shutdown) after
// its input was closed, which the gateway does: grace, SIGTERM, grace, SIGKILL.
// A listener has no such input: it is sent SIGTERM at once, and both graces follow. end
// does not wait after SIGKILL.
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

// copyStdout copies the process's output to w until the process has closed it, or has
// ended and its output has been read, or w fails.
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

// drainStdout copies what is in the pipe to w without waiting for more.
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
