package owner

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// tail keeps the last bytes written to it: a server's last words, for the
// person whose run failed.
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
// nothing was written. Colours, titles and control characters are dropped: this
// reaches a terminal.
func (t *tail) lines(n int) string {
	t.mu.Lock()
	b := bytes.TrimSpace(bytes.Clone(t.buf))
	t.mu.Unlock()
	if len(b) == 0 {
		return ""
	}
	// Control sequences, and control strings that end on their line (ECMA-48, 5.4, 5.6).
	steering := regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(\x07|\x1b\\\\)")
	all := strings.Split(string(steering.ReplaceAll(b, nil)), "\n")
	all = all[max(0, len(all)-n):]
	var out strings.Builder
	for _, line := range all {
		out.WriteString("\n  ")
		for _, r := range strings.ToValidUTF8(line, "?") {
			if r >= ' ' && r != 0x7f && !(r >= 0x80 && r < 0xa0) || r == '\t' {
				out.WriteRune(r)
			}
		}
	}
	return out.String()
}
