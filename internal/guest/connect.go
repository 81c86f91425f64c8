package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Line is the gateway's end of the connection to one guest. Its methods are the
// requests that a guest accepts.
type Line struct {
	session *yamux.Session
	stdin   io.Closer
	files   *handover // nil: the line carries everything
	env     []string  // set before the first Spawn

	mu     sync.Mutex
	inputs map[io.Closer]struct{} // standard inputs that were handed over
}

// ErrLineLost is returned when the guest is gone, and with it every process of its
// container.
var ErrLineLost = errors.New("the connection to the container was lost")

// Connect opens a line to a guest over its standard input and output. close
// releases both: it must make a blocked read of stdout return. Connect does not wait
// for the guest; the first request does.
func Connect(stdin io.WriteCloser, stdout io.Reader, close func() error) (*Line, error) {
	return newLine(&pair{Reader: stdout, WriteCloser: stdin, close: close}, stdin)
}

// ConnectShortcut is [Connect] to a guest that was started with a shortcut as its
// argument. It waits until the guest has chosen, or until ctx ends, and closes the
// shortcut. When it fails, the caller closes the streams. detour is the guest's reason
// for using the streams instead of the shortcut, "" if it uses the shortcut.
func ConnectShortcut(ctx context.Context, stdin io.WriteCloser, stdout io.Reader, end func() error, shortcut *Shortcut) (line *Line, detour string, err error) {
	conn, files, detour, err := shortcut.take(ctx, stdout)
	if err = errors.Join(err, shortcut.Close()); err != nil {
		if conn != nil {
			conn.Close()
			files.Close()
		}
		return nil, "", fmt.Errorf("open the line to the container: %w", err)
	}
	if conn == nil {
		line, err = Connect(stdin, stdout, end)
		return line, detour, err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdout) // empty; it ends with the container
		_ = conn.Close()
		_ = files.Close()
		close(ended)
	}()
	line, err = newLine(&pair{Reader: conn, WriteCloser: conn, close: func() error {
		err := errors.Join(files.Close(), stdin.Close())
		go func() {
			// The engine delivers the rest of standard error later.
			select {
			case <-ended:
			case <-time.After(stderrWait):
			}
			_ = end()
		}()
		return err
	}}, stdin)
	if err == nil {
		line.files = newHandover(files)
	}
	return line, "", err
}

func newLine(conn io.ReadWriteCloser, stdin io.Closer) (*Line, error) {
	// After 30 seconds without an answer to a ping, or without progress of a
	// write, the engine or the container hangs.
	session, err := yamux.Client(conn, lineConfig(30*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open the line to the container: %w", err)
	}
	return &Line{session: session, stdin: stdin, inputs: map[io.Closer]struct{}{}}, nil
}

// lineConfig is the configuration of yamux at both ends. timeout is how long the
// other end may take to answer a ping or to accept a write.
func lineConfig(timeout time.Duration) *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.Logger = log.New(io.Discard, "", 0)
	cfg.LogOutput = nil
	cfg.KeepAliveInterval = 20 * time.Second
	cfg.ConnectionWriteTimeout = timeout
	// A process whose input is closed may run on without a limit.
	cfg.StreamCloseTimeout = 0
	return cfg
}

// pair combines a guest's two standard streams into one connection.
type pair struct {
	io.Reader
	io.WriteCloser
	close func() error
}

func (p *pair) Close() error {
	return errors.Join(p.WriteCloser.Close(), p.close())
}

// Done is closed when the line has ended.
func (l *Line) Done() <-chan struct{} { return l.session.CloseChan() }

// HangUp closes the guest's standard input: the guest ends every process, which takes
// a few seconds at most, and exits. Output that the processes write meanwhile is still
// received. Close must follow.
func (l *Line) HangUp() error {
	l.mu.Lock()
	for input := range l.inputs {
		input.Close() // the guest has no copy of it
	}
	l.mu.Unlock()
	return l.stdin.Close()
}

// Close ends the line at once. The guest ends its processes as after HangUp, but data
// in transit is lost.
func (l *Line) Close() error { return l.session.Close() }

// SetEnv sets variables, NAME=VALUE, that every process spawned later has besides the
// container's environment. It must not be called while another method runs.
func (l *Line) SetEnv(env []string) { l.env = env }

// Spawn starts argv in the container with the container's environment, user and
// working directory. If ctx ends before the guest has answered, a process that was
// started is killed.
func (l *Line) Spawn(ctx context.Context, argv []string) (Process, error) {
	return l.spawn(ctx, request{Op: opSpawn, Argv: argv})
}

// SpawnOwn starts the program that the guest was started with ([ServeSocket]), with variables,
// NAME=VALUE, besides those of its container.
func (l *Line) SpawnOwn(ctx context.Context, env []string) (Process, error) {
	return l.spawn(ctx, request{Op: opSpawn, Env: env})
}

// SpawnListener is Spawn for a server that clients reach at a port. Such a server
// ends on SIGTERM, not at the end of its input, so SIGTERM is sent at once when Stop is
// called or the line ends.
func (l *Line) SpawnListener(ctx context.Context, argv []string) (Process, error) {
	return l.spawn(ctx, request{Op: opSpawn, Argv: argv, Listens: true})
}

func (l *Line) spawn(ctx context.Context, req request) (Process, error) {
	var p *remoteProcess
	if req.Env == nil {
		req.Env = l.env
	}
	if l.files == nil {
		stream, resp, err := l.request(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("start a process in the container: %w", err)
		}
		p = &remoteProcess{line: l, id: resp.Process, stdin: stream, stdout: stream, outputEnd: func() {}}
	} else {
		resp, files, err := l.requestFiles(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("start a process in the container: %w", err)
		}
		stdin, stdout, err := pipesOf(files)
		if err != nil {
			return nil, errors.Join(err, l.Close()) // it is not our guest
		}
		out := &outlet{File: stdout}
		p = &remoteProcess{line: l, id: resp.Process, stdin: l.input(stdin), stdout: out, outputEnd: out.end}
	}
	p.ended = make(chan struct{})
	go p.watch()
	return p, nil
}

// input registers a standard input that was handed over, for HangUp.
func (l *Line) input(f *os.File) io.WriteCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inputs[f] = struct{}{}
	return f
}

// Dial connects to a TCP address, "host:port", from inside the container.
func (l *Line) Dial(ctx context.Context, address string) (net.Conn, error) {
	req := request{Op: opDial, Address: address}
	if l.files != nil {
		_, files, err := l.requestFiles(ctx, req)
		if err != nil {
			return nil, err
		}
		return connectionOf(files)
	}
	stream, _, err := l.request(ctx, req)
	if err != nil {
		return nil, err
	}
	return &dialled{Stream: stream}, nil
}

// Ports returns the TCP ports that processes in the container's network listen on,
// ascending.
func (l *Line) Ports(ctx context.Context) ([]int, error) {
	stream, resp, err := l.request(ctx, request{Op: opPorts})
	if err != nil {
		return nil, err
	}
	return resp.Ports, stream.Close()
}

// requestFiles is request for something that is handed over.
func (l *Line) requestFiles(ctx context.Context, req request) (response, []*os.File, error) {
	ticket, handed := l.files.expect()
	req.Ticket = ticket
	stream, resp, err := l.request(ctx, req)
	if err != nil {
		l.files.forget(ticket, handed)
		return response{}, nil, err
	}
	stream.Close()
	// The guest sends the files before the response.
	select {
	case files, ok := <-handed:
		if ok {
			return resp, files, nil
		}
	case <-l.Done():
		l.files.forget(ticket, handed)
	}
	return response{}, nil, ErrLineLost
}

// answer is the outcome of one request.
type answer struct {
	stream *yamux.Stream
	resp   response
	err    error
}

// request opens a stream for req and reads the guest's response. The stream is nil
// on error. When ctx ends, the wait continues in the background, so that a process
// that was started for an abandoned request is ended.
func (l *Line) request(ctx context.Context, req request) (*yamux.Stream, response, error) {
	if err := ctx.Err(); err != nil {
		return nil, response{}, err
	}
	got := make(chan answer)
	go func() {
		a := l.exchange(req)
		select {
		case got <- a:
		case <-ctx.Done():
			l.abandon(a)
		}
	}()
	select {
	case a := <-got:
		return a.stream, a.resp, a.err
	case <-ctx.Done():
		return nil, response{}, context.Cause(ctx)
	}
}

func (l *Line) exchange(req request) answer {
	stream, err := l.session.OpenStream()
	if err != nil {
		return answer{err: l.lineError(err)}
	}
	resp, err := converse(stream, req)
	if err != nil {
		stream.Close()
		return answer{err: l.lineError(err)}
	}
	if resp.Error != "" {
		stream.Close()
		return answer{err: errors.New(resp.Error)}
	}
	return answer{stream: stream, resp: resp}
}

func converse(stream *yamux.Stream, req request) (response, error) {
	if err := writeLine(stream, req); err != nil {
		return response{}, err
	}
	line, err := readLine(stream)
	if err != nil {
		return response{}, err
	}
	var resp response
	if err := json.Unmarshal(line, &resp); err != nil {
		return response{}, fmt.Errorf("the container's guest answered something else: %w", err)
	}
	return resp, nil
}

// abandon ends the stream and the process of a request whose caller has left.
func (l *Line) abandon(a answer) {
	if a.stream == nil {
		return
	}
	a.stream.Close()
	if a.resp.Process != 0 {
		killed := l.exchange(request{Op: opKill, Process: a.resp.Process})
		if killed.stream != nil {
			killed.stream.Close()
		}
		_, _ = io.Copy(io.Discard, a.stream) // lets the guest finish writing
	}
}

// lineError returns ErrLineLost for the errors of a line that has ended.
func (l *Line) lineError(err error) error {
	if l.session.IsClosed() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrLineLost
	}
	return err
}
