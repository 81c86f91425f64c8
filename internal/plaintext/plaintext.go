// Package plaintext makes text from servers, engines and registries fit for a
// terminal, a log line or an error: it removes terminal control sequences, control
// characters, and characters that change the order in which text is shown. All text
// from outside that is shown passes through it.
package plaintext

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Lines removes control sequences and control characters from s, except line breaks
// and tabs, and the characters that reorder text. Bytes that are not UTF-8 become
// U+FFFD.
func Lines(s string) string {
	if strings.IndexFunc(s, introduces) >= 0 {
		s = sequence.ReplaceAllString(s, "")
	}
	return strings.Map(visible, s)
}

// Line is Lines in one line: each run of white space is one space, and invisible
// characters (Unicode category Cf) are removed, except the joiners that scripts and
// emoji need.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) && r != 0x200c && r != 0x200d {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(Lines(s)), " "))
}

// Excerpt is Line, cut to limit characters. A text that is cut ends in "…".
func Excerpt(s string, limit int) string {
	if len(s) > examined*limit {
		s = s[:examined*limit]
	}
	s = Line(s)
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit]) + "…"
}

// examined is how many bytes Excerpt reads for each character of its limit.
const examined = 64

// Control functions (ECMA-48 section 5), by their two-character and their
// one-character introducers. A sequence ends in its line, else it is text: it must
// not hide what follows it. CAN and SUB cancel a sequence.
const (
	csi    = `(?:\x1b\[|\x{9b})[ -?]*`                                                  // colours, cursor
	text   = `(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\n\x07\x18\x1a\x1b\x{9c}]*` // titles, links, clipboard
	single = `\x1b[ -/]*`
)

var (
	sequence = regexp.MustCompile(csi + `[@-~\x18\x1a]|` + text + `(?:[\x07\x18\x1a\x{9c}]|\x1b\\)|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\` + "`" + `a-~]`)
	// unfinished is the beginning of a sequence at the end of the text.
	unfinished = regexp.MustCompile(`(?:` + csi + `|` + text + `\x1b?|` + single + `)$`)
)

// introduces reports whether r can begin a control sequence.
func introduces(r rune) bool { return r == 0x1b || r >= 0x80 && r < 0xa0 }

// visible drops control characters, except line breaks and tabs, and the explicit
// directional embeddings, overrides and isolates (Unicode UAX #9), by which a name
// can look like another one. Right-to-left scripts do not need them.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
		return -1
	}
	return r
}

// Writer writes Lines of everything that is written to it, however it is divided
// into writes. It may be used concurrently. Flush writes what is left at the end.
type Writer struct {
	w    io.Writer
	mu   sync.Mutex
	rest string // a sequence or character that has not ended
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// maxSequence bounds an unfinished sequence that a Writer keeps, in bytes. A longer
// one is text.
const maxSequence = 4096

func (p *Writer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.rest + string(b)
	whole := len(all)
	for i := max(0, whole-utf8.UTFMax+1); i < whole; i++ {
		if utf8.RuneStart(all[i]) && !utf8.FullRuneInString(all[i:]) {
			whole = i
		}
	}
	if strings.IndexFunc(all[:whole], introduces) >= 0 {
		if at := unfinished.FindStringIndex(all[:whole]); at != nil && len(all)-at[0] <= maxSequence {
			whole = at[0]
		}
	}
	p.rest = all[whole:]
	return len(b), p.write(all[:whole])
}

// Flush writes an unfinished sequence as text.
func (p *Writer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.rest
	p.rest = ""
	return p.write(rest)
}

func (p *Writer) write(s string) error {
	if s = Lines(s); s == "" {
		return nil
	}
	_, err := io.WriteString(p.w, s)
	return err
}
