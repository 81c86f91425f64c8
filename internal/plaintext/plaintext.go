// Package plaintext makes what servers, engines and registries wrote fit for people to
// see: without what steers a terminal, and without what shows text in another order than
// it has. Everything of somebody else's that reaches a screen, a log line or an error
// goes through it.
package plaintext

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Lines is s without control characters, except line breaks and tabs, and without
// control sequences, whole, so that nothing of a colour stays. The lines stay.
func Lines(s string) string {
	var p plainText
	for _, r := range s {
		p.take(r)
	}
	p.settle()
	return p.out.String()
}

// Line is the same in one line, with one blank wherever s has blanks or line breaks.
func Line(s string) string { return strings.Join(strings.Fields(Lines(s)), " ") }

// maxSequence bounds a control sequence, in characters. What goes on for longer, or
// over the end of its line, is taken for text: it must not swallow what comes after it.
const maxSequence = 4096

// plainText takes control functions out of a text (ECMA-48, section 5): control
// sequences (CSI), which set colours and move the cursor, control strings (OSC, DCS, SOS,
// PM, APC), which set titles and write clipboards, and single ones.
type plainText struct {
	out  strings.Builder
	in   sequence
	held []rune // of the sequence that has not ended
}

// sequence is what a plainText is in the middle of.
type sequence int

const (
	noSequence sequence = iota
	afterEscape
	inCSI
	inString
	inStringAfterEscape
)

// Control characters that begin or end sequences.
const (
	bell            = '\a'
	cancel          = 0x18
	substitute      = 0x1a
	escape          = 0x1b
	singleCSI       = 0x9b
	singleString    = "\u0090\u0098\u009d\u009e\u009f"
	singleStringEnd = 0x9c
)

// take takes the next character.
func (p *plainText) take(r rune) {
	if p.in != noSequence && (r == '\n' || len(p.held) >= maxSequence) {
		p.settle() // it was none
	}
	switch {
	case p.in == noSequence:
		p.begin(r)
		return
	case r == cancel, r == substitute:
		p.end()
		return
	}
	p.held = append(p.held, r)
	switch p.in {
	case afterEscape:
		switch {
		case r == '[':
			p.in = inCSI
		case strings.ContainsRune("]PX^_", r):
			p.in = inString
		case r >= 0x20 && r <= 0x2f: // more of it comes
		case r >= 0x30 && r <= 0x7e:
			p.end()
		default:
			p.again(r)
		}
	case inCSI:
		switch {
		case r >= 0x40 && r <= 0x7e:
			p.end()
		case r < 0x20 || r > 0x3f:
			p.again(r)
		}
	case inString:
		switch r {
		case bell, singleStringEnd:
			p.end()
		case escape:
			p.in = inStringAfterEscape
		}
	case inStringAfterEscape:
		if r == '\\' {
			p.end()
		} else {
			// It was not the end of the string, but the beginning of something else.
			p.again(escape)
			p.take(r)
		}
	}
}

// begin takes a character that is in no sequence.
func (p *plainText) begin(r rune) {
	switch {
	case r == escape:
		p.in = afterEscape
	case r == singleCSI:
		p.in = inCSI
	case strings.ContainsRune(singleString, r):
		p.in = inString
	default:
		p.write(r)
	}
}

// end drops the sequence, which is whole.
func (p *plainText) end() { p.in, p.held = noSequence, p.held[:0] }

// settle shows what was held as the text that it is.
func (p *plainText) settle() {
	for _, r := range p.held {
		p.write(r)
	}
	p.end()
}

// again takes r, the last that is held, as what comes after the sequence that it broke.
func (p *plainText) again(r rune) {
	p.held = p.held[:len(p.held)-1]
	p.settle()
	p.begin(r)
}

func (p *plainText) write(r rune) {
	if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || reorders(r) {
		return
	}
	p.out.WriteRune(r)
}

// reorders: text after it is shown in another order than it has (Unicode, UAX #9,
// explicit directional embeddings, overrides and isolates), so that a name can look
// like another one. Scripts that run from the right need none of them.
func reorders(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }

// Writer passes on what Lines leaves of everything that is written to it, in any pieces
// and of several at once. Flush passes on what is left at the end.
type Writer struct {
	w    io.Writer
	mu   sync.Mutex
	text plainText
	rest []byte // of a character that has not ended
}

// NewWriter makes a Writer that passes on to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

func (p *Writer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append(p.rest, b...)
	for utf8.FullRune(all) {
		r, size := utf8.DecodeRune(all)
		p.text.take(r)
		all = all[size:]
	}
	p.rest = append([]byte(nil), all...)
	if err := p.pass(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush ends the text: a sequence that has not ended is text.
func (p *Writer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.rest {
		p.text.take(utf8.RuneError)
	}
	p.rest = nil
	p.text.settle()
	return p.pass()
}

func (p *Writer) pass() error {
	if p.text.out.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(p.w, p.text.out.String())
	p.text.out.Reset()
	return err
}
