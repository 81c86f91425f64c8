package owner

import (
	"bytes"
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
