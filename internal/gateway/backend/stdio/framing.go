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
	// maxStrayLines is the number of consecutive lines that are no message after which the
	// process is ended. Servers print banners and stack traces, but not a thousand lines of
	// them without a message.
	maxStrayLines = 1000
	// loggedStrayLines bounds the lines of a process that are no message and are logged.
	loggedStrayLines = 20
)

// errLineTooLong reports a line of more than [mcp.MaxEvent] bytes. The line cannot be
// skipped, since it may have no end.
var errLineTooLong = errors.New("a line is too long")

// send writes m on one line (MCP, Transports, stdio: messages are delimited by
// newlines and must not contain embedded ones). It returns when the writer has received the
// line, or when ctx or the process ends.
func (p *process) send(ctx context.Context, m *mcp.Message) error {
	return p.put(ctx, append(m.Encode(), '\n'))
}

// flush returns when the lines sent before it have been written: the writer receives a line
// after it has written the previous one.
func (p *process) flush(ctx context.Context) error { return p.put(ctx, nil) }

// put sends a line to the writer.
func (p *process) put(ctx context.Context, line []byte) error {
	select {
	case <-p.closing: // checked first: the writer may still receive
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

// write writes lines one after the other. If the server does not read its input, senders
// block until their deadlines.
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
	garbage := 0
	parts := joiner{late: func(part []byte) { p.unreadable(part, errIncomplete) }}
	defer parts.drop()
	for {
		line, err := readServerLine(r)
		if errors.Is(err, errLineTooLong) {
			return wire.ServerGone("the server's process was ended because it wrote a line of more than %d MiB", mcp.MaxEvent>>20)
		}
		if err != nil {
			// A last line without a newline is not a message, but may contain the reason why
			// the process exited.
			if p.logged.Load() < loggedStrayLines && (!p.over() || !p.spoke.Load()) {
				p.showStray(line)
			}
			return err
		}
		messages, err := p.parse(line)
		if err == nil {
			parts.drop() // a complete message ends an incomplete one
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
		p.unreadable(line, err)
		if garbage++; garbage >= maxStrayLines {
			return wire.ServerGone("the server's process was ended because it wrote %d lines in a row that are not JSON-RPC messages; does it speak MCP on its standard output?", maxStrayLines)
		}
	}
}

// unreadable ends the requests that a line which is no message may have answered, and logs
// the line. Goroutines may call it concurrently.
func (p *process) unreadable(line []byte, err error) {
	if len(line) > 0 {
		p.stray.Store(true)
	}
	p.pending.Unreadable(line, err, nil)
	if p.logged.Add(1) <= loggedStrayLines && len(line) > 0 && !p.over() {
		p.showStray(line)
		p.log.Warn("the server wrote a line that is not a JSON-RPC message to its standard output; it is skipped", "line", strayText(line), "error", err)
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

// strayText returns the text that is logged of a line that is no message.
func strayText(line []byte) string { return wire.Printable(string(line[:min(len(line), maxStray)])) }

// maxStray bounds the logged part of a line that is no message, in bytes.
const maxStray = 1024

// parse parses one line. Only version 2025-03-26 has batches.
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

// readServerLine returns the next line without its line ending. The line is a new slice,
// because parsed messages refer to it. A last line without a line ending is returned with
// the error.
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

// errOutputEnded replaces io.EOF, for error messages.
var errOutputEnded = errors.New("end of its standard output")
