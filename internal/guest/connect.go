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

// Line is the gateway's end of the line to one guest: what it can ask of it.
type Line struct {
	session *yamux.Session
	stdin   io.Closer
	files   *handover // nil: the line carries everything

	mu     sync.Mutex
	inputs map[io.Closer]struct{} // standard inputs that were handed over
}

// ErrLineLost: the guest is gone, and with it every process of its container.
var ErrLineLost = errors.New("the connection to the container was lost")

// Connect speaks to a guest over its standard input and output. close releases
// both: it must make a blocked read of stdout return. Connect does not wait for
// the guest; the first call does.
func Connect(stdin io.WriteCloser, stdout io.Reader, close func() error) (*Line, error) {
	return newLine(&pair{Reader: stdout, WriteCloser: stdin, close: close}, stdin)
}

// ConnectShortcut is [Connect] to a guest that was told of a shortcut, which is
// closed when it returns. It waits for the guest to choose, until ctx ends. When it
// fails, the streams are the caller's to close. detour is the guest's reason for not
// taking the shortcut.
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
		_, _ = io.Copy(io.Discard, stdout) // nothing comes; it ends with the container
		_ = conn.Close()
		_ = files.Close()
		close(ended)
	}()
	line, err = newLine(&pair{Reader: conn, WriteCloser: conn, close: func() error {
		err := errors.Join(files.Close(), stdin.Close())
		go func() {
			// What was written to standard error comes through the engine, later.
			select {
			case <-ended:
			case <-time.After(lastWords):
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
	// 30 seconds without an answer to a ping, or without progress of a write:
	// the engine, or the container, hangs.
	session, err := yamux.Client(conn, lineConfig(30*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open the line to the container: %w", err)
	}
	return &Line{session: session, stdin: stdin, inputs: map[io.Closer]struct{}{}}, nil
}

// lineConfig is how both ends use yamux. timeout is how long the other end may
// be silent.
func lineConfig(timeout time.Duration) *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.Logger = log.New(io.Discard, "", 0)
	cfg.LogOutput = nil
	cfg.KeepAliveInterval = 20 * time.Second
	cfg.ConnectionWriteTimeout = timeout
	// A process whose input is closed may go on for as long as it likes.
	cfg.StreamCloseTimeout = 0
	return cfg
}

// pair makes one connection of a guest's two standard streams.
type pair struct {
	io.Reader
	io.WriteCloser
	close func() error
}

func (p *pair) Close() error {
	return errors.Join(p.WriteCloser.Close(), p.close())
}

// Done is closed when the guest has gone away.
func (l *Line) Done() <-chan struct{} { return l.session.CloseChan() }

// HangUp tells the guest that no more is wanted of it: it ends every process, which
// takes it a few seconds at most, and exits. What they still say is heard. Close must
// follow.
func (l *Line) HangUp() error {
	l.mu.Lock()
	for input := range l.inputs {
		input.Close() // the guest no longer has it
	}
	l.mu.Unlock()
	return l.stdin.Close()
}

// Close ends the line at once, as HangUp does, but what is still on its way is lost.
func (l *Line) Close() error { return l.session.Close() }

// Spawn starts argv in the container with the container's environment, user and
// working directory. When ctx ends before the guest has answered,
// a process that was started all the same is killed.
func (l *Line) Spawn(ctx context.Context, argv []string) (Process, error) {
	return l.spawn(ctx, request{Op: opSpawn, Argv: argv})
}

// SpawnListener is Spawn for a server that clients reach at a port. Such a server
// minds SIGTERM, and not the end of its input, so that is sent at once when it is to
// end, whether by Stop or with the line.
func (l *Line) SpawnListener(ctx context.Context, argv []string) (Process, error) {
	return l.spawn(ctx, request{Op: opSpawn, Argv: argv, Listens: true})
}

func (l *Line) spawn(ctx context.Context, req request) (Process, error) {
	var p *remoteProcess
	if l.files == nil {
		stream, resp, err := l.ask(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("start a process in the container: %w", err)
		}
		p = &remoteProcess{line: l, id: resp.Process, stdin: stream, stdout: stream, outputEnd: func() {}}
	} else {
		resp, files, err := l.askFiles(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("start a process in the container: %w", err)
		}
		stdin, stdout, err := pipesOf(files)
		if err != nil {
			return nil, errors.Join(err, l.Close()) // no guest of ours
		}
		out := &outlet{File: stdout}
		p = &remoteProcess{line: l, id: resp.Process, stdin: l.input(stdin), stdout: out, outputEnd: out.end}
	}
	p.ended = make(chan struct{})
	go p.watch()
	return p, nil
}

// input is a standard input that was handed over.
func (l *Line) input(f *os.File) io.WriteCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inputs[f] = struct{}{}
	return f
}

// Dial connects to a TCP address as seen from inside the container.
func (l *Line) Dial(ctx context.Context, address string) (net.Conn, error) {
	req := request{Op: opDial, Address: address}
	if l.files != nil {
		_, files, err := l.askFiles(ctx, req)
		if err != nil {
			return nil, err
		}
		return connectionOf(files)
	}
	stream, _, err := l.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	return &dialled{Stream: stream}, nil
}

// Ports are the TCP ports that something in the container's network listens on,
// ascending.
func (l *Line) Ports(ctx context.Context) ([]int, error) {
	stream, resp, err := l.ask(ctx, request{Op: opPorts})
	if err != nil {
		return nil, err
	}
	return resp.Ports, stream.Close()
}

// askFiles is ask for something that is handed over.
func (l *Line) askFiles(ctx context.Context, req request) (response, []*os.File, error) {
	ticket, handed := l.files.expect()
	req.Ticket = ticket
	stream, resp, err := l.ask(ctx, req)
	if err != nil {
		l.files.forget(ticket, handed)
		return response{}, nil, err
	}
	stream.Close()
	// They were sent before the answer was.
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

// answer is what came of one request.
type answer struct {
	stream *yamux.Stream
	resp   response
	err    error
}

// ask opens a stream for req and reads the guest's answer. The stream is nil
// when there is an error. The wait goes on in the background when ctx ends, so
// that a process nobody waits for any more can be ended.
func (l *Line) ask(ctx context.Context, req request) (*yamux.Stream, response, error) {
	if err := ctx.Err(); err != nil {
		return nil, response{}, err
	}
	got := make(chan answer)
	go func() {
		a := l.exchange(req)
		select {
		case got <- a:
		case <-ctx.Done():
			l.disown(a)
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
		return answer{err: l.fault(err)}
	}
	resp, err := converse(stream, req)
	if err != nil {
		stream.Close()
		return answer{err: l.fault(err)}
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

// disown ends what a request has brought about that nobody waits for any more.
func (l *Line) disown(a answer) {
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

// fault turns an error of the line into one a person understands.
func (l *Line) fault(err error) error {
	if l.session.IsClosed() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrLineLost
	}
	return err
}
