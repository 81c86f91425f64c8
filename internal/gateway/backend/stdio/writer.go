package stdio

import (
	"context"
	"io"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// writer writes messages to the standard input of a process, one on each line (MCP,
// Transports, stdio: messages are delimited by newlines and must not contain embedded ones).
type writer struct {
	lifetime context.Context // ends with the process
	lines    chan []byte
}

func newWriter(lifetime context.Context) *writer {
	return &writer{lifetime: lifetime, lines: make(chan []byte)}
}

// send writes m. It returns when run has received the line, or when ctx or the process ends.
func (w *writer) send(ctx context.Context, m *mcp.Message) error {
	return w.enqueue(ctx, append(m.Encode(), '\n'))
}

// flush returns when the lines sent before it have been written: run receives a line after
// it has written the previous one.
func (w *writer) flush(ctx context.Context) error { return w.enqueue(ctx, nil) }

func (w *writer) enqueue(ctx context.Context, line []byte) error {
	if w.lifetime.Err() != nil { // checked first: run may still receive
		return context.Cause(w.lifetime)
	}
	select {
	case w.lines <- line:
		return nil
	case <-w.lifetime.Done():
		return context.Cause(w.lifetime)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run writes the lines to stdin until the process ends, and returns the error of a write. If
// the server does not read its input, senders wait until their contexts end.
func (w *writer) run(stdin io.Writer) error {
	for {
		select {
		case line := <-w.lines:
			if line == nil { // a flush
				continue
			}
			if _, err := stdin.Write(line); err != nil {
				return err
			}
		case <-w.lifetime.Done():
			return nil
		}
	}
}
