package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"
)

// How long the guest waits before each harsher step. (For a listener SIGTERM is the
// first step.) Their sum stays below the ten seconds that an engine gives a container to
// stop.
const (
	lineLostGrace = 2 * time.Second // after the input of every process was closed
	termGrace     = 2 * time.Second // after SIGTERM
	stopSigGrace  = 5 * time.Second // after SIGTERM, when the engine stops the container
	killGrace     = 2 * time.Second // after SIGKILL, for the kernel
	dialTimeout   = 10 * time.Second
	// gatewaySilence is how long a gateway may leave a ping unanswered before the
	// guest treats it as dead. It is long enough to debug a gateway.
	gatewaySilence = 2 * time.Minute
)

// Serve runs the guest. It serves the requests of the gateway on line and starts
// processes whose standard error is stderr. rejected is the kernel's record of rejected
// packets in an isolated container, or nil. It returns when the line has ended, on
// SIGTERM or SIGINT, or when ctx ends; every process has ended by then.
//
// Serve must be all that its process does: it reaps every child.
func Serve(ctx context.Context, line io.ReadWriteCloser, stderr, rejected *os.File) error {
	stop, release, err := become()
	if err != nil {
		return err
	}
	defer release()
	s := newSupervisor(stderr)
	s.egress.rejected = rejected
	go s.reap(ctx)
	if err := s.serve(ctx, line, stop); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// become makes this process a guest until release. stop receives the signals that end it.
func become() (stop <-chan os.Signal, release func(), err error) {
	// The parent of orphans is PID 1, and with this also the guest where an engine's
	// own init is PID 1 (prctl(2), PR_SET_CHILD_SUBREAPER).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	// Processes run as the guest's user. Without this they could open the line
	// through /proc/1/fd, or trace the guest (ptrace(2), access mode checking).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, nil, fmt.Errorf("hide the line from the processes: %w", err)
	}
	// A broken standard output must not kill the guest (os/signal, SIGPIPE). The
	// signal is handled, not ignored: processes would inherit that.
	broken, ends := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(broken, unix.SIGPIPE, unix.SIGHUP)
	signal.Notify(ends, unix.SIGTERM, unix.SIGINT)
	return ends, func() { signal.Stop(broken); signal.Stop(ends) }, nil
}

// serve serves one line to its end.
func (s *supervisor) serve(ctx context.Context, line io.ReadWriteCloser, stop <-chan os.Signal) error {
	session, err := yamux.Server(line, lineConfig(gatewaySilence))
	if err != nil {
		return err
	}
	var files *giver
	if l, ok := line.(*shortcutLine); ok {
		files = &giver{conn: l.files}
	}
	go accept(ctx, session, s, files)
	select {
	case <-session.CloseChan():
		s.end(lineLostGrace, termGrace)
		return nil
	case <-stop:
		s.end(0, stopSigGrace)
	case <-ctx.Done():
		s.end(0, stopSigGrace)
	}
	go session.Close() // may block in a read that does not return
	return errStopped
}

// errStopped: the guest was stopped, and the line did not end.
var errStopped = errors.New("stopped")

func accept(ctx context.Context, session *yamux.Session, s *supervisor, files *giver) {
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			defer stream.Close()
			handle(ctx, stream, s, files)
		}()
	}
}

// handle reads the request of a stream and carries it out. The caller closes the
// stream. files is nil on a line without handover.
func handle(ctx context.Context, stream *yamux.Stream, s *supervisor, files *giver) {
	line, err := readLine(stream)
	if err != nil {
		refuse(stream, err)
		return
	}
	req, err := parseRequest(line)
	if err != nil {
		refuse(stream, err)
		return
	}
	if req.Ticket != 0 && files == nil {
		refuse(stream, errNotHanded)
		return
	}
	switch req.Op {
	case opIsolate:
		if err := s.egress.listen(ctx, stream.Session(), files); err != nil {
			refuse(stream, err)
			return
		}
		_ = writeLine(stream, response{})
	case opSpawn:
		handleSpawn(stream, s, req, files)
	case opDial:
		handleDial(ctx, stream, req, files)
	case opPorts:
		_ = writeLine(stream, response{Ports: listening()})
	default:
		p := s.find(req.Process)
		if p == nil {
			refuse(stream, fmt.Errorf("there is no process %d", req.Process))
			return
		}
		if req.Op == opState {
			_ = writeLine(stream, response{Stopped: groupStopped(p.pid)})
			return
		}
		if req.Op == opKill {
			p.end(time.Duration(req.GraceMillis) * time.Millisecond)
		}
		<-p.done
		_ = writeLine(stream, response{Code: p.code, Signal: p.signal})
	}
}

// refuse responds with an error. If the response is lost, so is the line, and the
// process ends.
func refuse(stream *yamux.Stream, err error) {
	_ = writeLine(stream, response{Error: err.Error()})
}

func handleSpawn(stream *yamux.Stream, s *supervisor, req request, files *giver) {
	var give func(stdin, stdout *os.File) error
	if req.Ticket != 0 {
		give = func(stdin, stdout *os.File) error { return files.give(req.Ticket, stdin, stdout) }
	}
	p, err := s.start(req, give)
	if err != nil {
		refuse(stream, err)
		return
	}
	if err := writeLine(stream, response{Process: p.id}); err != nil {
		p.end(0)
		return
	}
	if give != nil {
		return
	}
	go func() {
		_, _ = io.Copy(p.stdin, stream)
		p.stdin.Close()
		// A process that has closed its input must not block the gateway.
		_, _ = io.Copy(io.Discard, stream)
	}()
	p.copyStdout(stream)
	p.stdout.Close()
}

func handleDial(ctx context.Context, stream *yamux.Stream, req request, files *giver) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", req.Address)
	if err != nil {
		refuse(stream, dialError(req.Address, err))
		return
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok && req.Ticket != 0 {
		if err := files.give(req.Ticket, tcp); err != nil {
			refuse(stream, err)
			return
		}
		_ = writeLine(stream, response{})
		return
	}
	if err := writeLine(stream, response{}); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(conn, stream)
		// The gateway has closed its connection: both directions end.
		conn.Close()
		stream.Close()
	}()
	_, _ = io.Copy(stream, conn)
	// The server has closed its side. The gateway then closes its connection, and
	// the copy above ends.
	stream.Close()
	_, _ = io.Copy(io.Discard, stream)
}

// dialError is an error with the address, once, and the kernel's error.
func dialError(address string, err error) error {
	if errors.Is(err, unix.ECONNREFUSED) {
		ports := listening()
		hint := Elsewhere(ports)
		if _, port, err := net.SplitHostPort(address); err == nil && slices.ContainsFunc(ports, func(p int) bool { return strconv.Itoa(p) == port }) {
			hint = ", but on that port of another address, which --target-host can name"
		}
		return fmt.Errorf("nothing listens on %s in the container (connection refused)%s", address, hint)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	return fmt.Errorf("connect to %s in the container: %w", address, err)
}
