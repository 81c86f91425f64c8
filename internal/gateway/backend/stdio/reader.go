package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

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
	// maxStray bounds the logged part of a line that is no message, in bytes.
	maxStray = 1024
)

var (
	// errLineTooLong reports a line of more than [mcp.MaxEvent] bytes. The line cannot be
	// skipped, since it may have no end.
	errLineTooLong = errors.New("a line is too long")
	// errOutputEnded replaces io.EOF, for error messages.
	errOutputEnded = errors.New("end of its standard output")
	// ErrNoProtocolOutput is returned by Open when a process has written to its standard
	// output, but no JSON-RPC message, and has not answered in time.
	ErrNoProtocolOutput = wire.ServerGone("the server's process was ended because it writes to its standard output, but no JSON-RPC message, and did not answer")
)

// reader reads messages from the standard output of a process.
type reader struct {
	lifetime context.Context // ends with the process
	diag     io.Writer       // receives the first lines that are no message; may be nil
	log      *slog.Logger

	// handle is called with each message, by the goroutine of run.
	handle func(*mcp.Message)
	// unreadable is called with each line that is no message. Several goroutines may call
	// it.
	unreadable func(line []byte, err error)
	// hasBatches reports whether a line may be a batch (MCP 2025-03-26, Base Protocol).
	hasBatches func() bool

	spoke  atomic.Bool  // a message has been read
	stray  atomic.Bool  // a line that is no message has been read
	logged atomic.Int64 // lines that are no message
}

// run handles the messages in stdout until it ends. The error is an *mcp.Error when it is a
// reason to end the process.
func (r *reader) run(stdout io.Reader) error {
	lines := bufio.NewReaderSize(stdout, 32<<10)
	strays := 0
	parts := joiner{late: func(part []byte) { r.skip(part, errIncomplete) }}
	defer parts.drop()
	for {
		line, err := readLine(lines)
		if errors.Is(err, errLineTooLong) {
			return wire.ServerGone("the server's process was ended because it wrote a line of more than %d MiB", mcp.MaxEvent>>20)
		}
		if err != nil {
			// A last line without a newline is not a message, but may contain the reason why
			// the process exited.
			if r.logged.Load() < loggedStrayLines && (r.lifetime.Err() == nil || !r.spoke.Load()) {
				r.show(line)
			}
			return err
		}
		messages, err := r.parse(line)
		if err == nil {
			parts.drop() // a complete message ends an incomplete one
		} else {
			whole, complete := parts.add(line)
			if !complete {
				continue
			}
			if len(whole) > len(line) {
				line = whole
				messages, err = r.parse(whole)
			}
		}
		if err == nil {
			strays = 0
			r.spoke.Store(true)
			for _, m := range messages {
				r.handle(m)
			}
			continue
		}
		r.skip(line, err)
		if strays++; strays >= maxStrayLines {
			return wire.ServerGone("the server's process was ended because it wrote %d lines in a row that are not JSON-RPC messages; does it speak MCP on its standard output?", maxStrayLines)
		}
	}
}

// skip passes on a line that is no message, and logs it.
func (r *reader) skip(line []byte, err error) {
	if len(line) > 0 {
		r.stray.Store(true)
	}
	r.unreadable(line, err)
	if r.logged.Add(1) <= loggedStrayLines && len(line) > 0 && r.lifetime.Err() == nil {
		r.show(line)
		r.log.Warn("the server wrote a line that is not a JSON-RPC message to its standard output; it is skipped", "line", strayText(line), "error", err)
	}
}

// strayOnly reports whether lines were read, none of which is a message.
func (r *reader) strayOnly() bool { return r.stray.Load() && !r.spoke.Load() }

// show writes a line that is no message to diag.
func (r *reader) show(line []byte) {
	if r.diag != nil && len(line) > 0 {
		_, _ = fmt.Fprintln(r.diag, strayText(line)) // a diagnostic only
	}
}

// strayText returns the text that is logged of a line that is no message.
func strayText(line []byte) string { return wire.Printable(string(line[:min(len(line), maxStray)])) }

// parse parses one line.
func (r *reader) parse(line []byte) ([]*mcp.Message, error) {
	if r.hasBatches() {
		messages, _, err := mcp.ParseBatch(line)
		return messages, err
	}
	m, err := mcp.Parse(line)
	if err != nil {
		return nil, err
	}
	return []*mcp.Message{m}, nil
}

// readLine returns the next line without its line ending. The line is a new slice, because
// parsed messages refer to it. A last line without a line ending is returned with the error.
func readLine(r *bufio.Reader) ([]byte, error) {
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
