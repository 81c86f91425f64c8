package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// maxStrayLines is how many lines in a row may be no message before the process
	// is ended. Servers print banners and stack traces; none prints a thousand
	// lines of them without a message.
	maxStrayLines = 1000
	// loggedStrayLines is how many of a process's garbage lines are logged.
	loggedStrayLines = 20
)

// errLineTooLong: a server's line is over mcp.MaxEvent. It cannot be skipped, it
// may have no end.
var errLineTooLong = errors.New("a line is too long")

// send writes m on one line (MCP, Transports, stdio: messages are delimited by
// newlines and must not contain embedded ones). It returns when the line is
// handed over for writing, or ctx or the process ends.
func (p *process) send(ctx context.Context, m *mcp.Message) error {
	return p.put(ctx, append(m.Encode(), '\n'))
}

// flush returns when what was sent has been written: the writer takes a line when it is
// done with the one before.
func (p *process) flush(ctx context.Context) error { return p.put(ctx, nil) }

// put hands a line to the writer.
func (p *process) put(ctx context.Context, line []byte) error {
	select {
	case <-p.closing: // it must win over a writer that is still there
		return p.why
	default:
	}
	select {
	case p.outbox <- line:
		return nil
	case <-p.closing:
		return p.why
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes lines one after the other. A server that does not read its input stalls its
// own clients, each until its own deadline.
func (p *process) write() {
	stdin := p.server.Stdin()
	for {
		select {
		case line := <-p.outbox:
			if line == nil { // a flush
				continue
			}
			if _, err := stdin.Write(line); err != nil {
				p.fail(p.diagnose(err))
				return
			}
		case <-p.closing:
			return
		}
	}
}

// read handles messages until the server's output ends. The error is an
// *mcp.Error when it is a reason to end the process.
func (p *process) read() error {
	r := bufio.NewReaderSize(p.server.Stdout(), 32<<10)
	garbage, logged := 0, 0
	parts := joiner{late: func(part []byte) { p.pending.Unreadable(part, errIncomplete, nil) }}
	defer parts.reset()
	for {
		line, err := readServerLine(r)
		if errors.Is(err, errLineTooLong) {
			return wire.ServerGone("the server's process was ended because it wrote a line of more than %d MiB", mcp.MaxEvent>>20)
		}
		if err != nil {
			// A last line without a newline is no message, but may give the reason
			// why the process ended.
			if logged < loggedStrayLines && (!p.over() || !p.spoke.Load()) {
				p.showStray(line)
			}
			return err
		}
		messages, err := p.parse(line)
		if err == nil {
			parts.drop() // a part before a whole message is not continued
		} else {
			whole, complete := parts.add(line)
			if !complete {
				continue
			}
			if len(whole) > len(line) {
				line = whole
				messages, err = p.parse(whole)
			}
		}
		if err == nil {
			garbage = 0
			p.spoke.Store(true)
			p.received()
			for _, m := range messages {
				p.handle(m)
			}
			continue
		}
		p.stray.Store(p.stray.Load() || len(line) > 0)
		p.pending.Unreadable(line, err, nil)
		if garbage++; garbage >= maxStrayLines {
			return wire.ServerGone("the server's process was ended because it wrote %d lines in a row that are not JSON-RPC messages; does it speak MCP on its standard output?", maxStrayLines)
		}
		if logged++; logged <= loggedStrayLines && len(line) > 0 && !p.over() {
			p.showStray(line)
			p.log.Warn("the server wrote a line that is not a JSON-RPC message to its standard output; it is skipped", "line", strayText(line), "error", err)
		}
	}
}

// ErrNoProtocolOutput is returned by Open when a process has written to its standard
// output, but no JSON-RPC message, and has not answered in time.
var ErrNoProtocolOutput = wire.ServerGone("the server's process was ended because it writes to its standard output, but no JSON-RPC message, and did not answer")

// strayOnly reports whether the process has written lines, none of which is a message.
func (p *process) strayOnly() bool { return p.stray.Load() && !p.spoke.Load() }

// showStray writes a line that is no message to Config.Stray.
func (p *process) showStray(line []byte) {
	if w := p.backend.cfg.Stray; w != nil && len(line) > 0 {
		_, _ = fmt.Fprintln(w, strayText(line)) // a diagnostic only
	}
}

// strayText is what is shown of a line that is no message.
func strayText(line []byte) string { return wire.Printable(string(line[:min(len(line), maxStray)])) }

// maxStray is how many bytes of a line that is no message are shown.
const maxStray = 1024

// parse reads one line. Only version 2025-03-26 has batches.
func (p *process) parse(line []byte) ([]*mcp.Message, error) {
	if v := p.version.Load(); v != nil && *v == mcp.V20250326 {
		messages, _, err := mcp.ParseBatch(line)
		return messages, err
	}
	m, err := mcp.Parse(line)
	if err != nil {
		return nil, err
	}
	return []*mcp.Message{m}, nil
}

// readServerLine returns the next line without its end. It is the caller's,
// because messages are parts of it. A last line without an end, which was cut
// off, comes with the error.
func readServerLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > mcp.MaxEvent {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return line, errOutputEnded
		default:
			return line, err
		}
	}
}

// errOutputEnded is io.EOF in words.
var errOutputEnded = errors.New("end of its standard output")
