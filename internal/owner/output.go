package owner

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// tail keeps the last bytes written to it: the end of a server's output, for the error
// of a run that failed.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// lines are the last n lines, indented, each on a line of its own; "" when
// nothing was written. This reaches a terminal.
func (t *tail) lines(n int) string {
	t.mu.Lock()
	b := bytes.TrimSpace(bytes.Clone(t.buf))
	t.mu.Unlock()
	if len(b) == 0 {
		return ""
	}
	all := strings.Split(plaintext.Lines(string(b)), "\n")
	var out strings.Builder
	for _, line := range all[max(0, len(all)-n):] {
		out.WriteString("\n  " + line)
	}
	return out.String()
}

// maxLog is the size at which a log file is put aside; one old file is kept, so
// a workload's log takes at most twice this.
const maxLog = 10 << 20

// logFile is a file that is appended to and put aside when it grows too large.
// It may be written to concurrently.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends p. A log that cannot be written (a full disk) loses lines; it
// never stops the server that writes them, so Write reports success.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog && l.size > 0 {
		old := l.file
		if err := os.Rename(l.path, l.path+".1"); err == nil && l.open() == nil {
			old.Close()
		}
	}
	n, _ := l.file.Write(p)
	l.size += int64(n)
	return len(p), nil
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
