package strictjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

// lexer is an index in a text. It passes tokens, without regard to the order in which
// they may follow each other.
type lexer struct {
	text   []byte
	at     int
	blanks int // how many of the bytes before at are blanks between tokens
	rules  Rules
	fault  *Fault
}

// refuse stops the lexer. It is rarely called, by functions that are often called:
// inlining it would slow them down.
//
//go:noinline
func (l *lexer) refuse(p Problem, at int) {
	l.fault = &Fault{Problem: p, Offset: at, AtEnd: at >= len(l.text)}
}

// checkUTF8 refuses a text at its first byte that is not UTF-8.
func (l *lexer) checkUTF8() {
	if utf8.Valid(l.text) {
		return
	}
	for at := 0; ; {
		r, size := utf8.DecodeRune(l.text[at:])
		if r == utf8.RuneError && size <= 1 {
			l.refuse(NotUTF8, at)
			return
		}
		at += size
	}
}

// pass moves to the next token.
func (l *lexer) pass() {
	if l.at < len(l.text) && l.text[l.at] <= ' ' {
		l.passBlanks()
	}
}

func (l *lexer) passBlanks() {
	at := SkipBlanks(l.text, l.at)
	l.blanks += at - l.at
	l.at = at
}

// SkipBlanks returns the index of the first byte of b from i on that is not white space
// (RFC 8259 section 2).
func SkipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted passes the string that begins at the lexer's index (RFC 8259 section 7), and
// reports whether it has escapes.
func (l *lexer) quoted() (escaped bool) {
	b := l.text
	for i := l.at + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c > '\\': // most are
		case c == '"':
			l.at = i + 1
			return escaped
		case c == '\\':
			escaped = true
			if i = l.escape(i + 1); l.fault != nil {
				return escaped
			}
		case c < ' ':
			l.refuse(ControlCharacter, i)
			return escaped
		}
	}
	l.refuse(TheEnd, len(b))
	return escaped
}

// escape looks at what follows a backslash, at i, and returns the index of its
// last byte.
func (l *lexer) escape(i int) int {
	b := l.text
	if i >= len(b) {
		l.refuse(TheEnd, i)
		return i
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
	default:
		l.refuse(NoSuchEscape, i)
		return i
	}
	r, ok := hex4(b, i+1)
	switch {
	case !ok:
		l.refuse(NoHexadecimal, i)
		return i
	case r == 0 && l.rules&NoNUL != 0:
		l.refuse(NUL, i)
		return i
	case l.rules&WholeCharacters == 0 || !utf16.IsSurrogate(r):
		return i + 4
	}
	if _, ok := pair(b, i+1); !ok {
		l.refuse(HalfCharacter, i)
		return i
	}
	return i + 10
}

// pair decodes the surrogate pair XXXX\uXXXX at b[i].
func pair(b []byte, i int) (rune, bool) {
	if i+10 > len(b) || b[i+4] != '\\' || b[i+5] != 'u' {
		return 0, false
	}
	high, ok := hex4(b, i)
	low, ok2 := hex4(b, i+6)
	r := utf16.DecodeRune(high, low)
	return r, ok && ok2 && r != '\uFFFD'
}

// hex4 reads the four hexadecimal digits at b[i].
func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// number is RFC 8259 section 6.
func (l *lexer) number() {
	b := l.text
	if b[l.at] == '-' {
		l.at++
	}
	if l.at < len(b) && b[l.at] == '0' { // no leading zeros
		l.at++
	} else if !l.digits(NoDigits) {
		return
	}
	if l.at < len(b) && b[l.at] == '.' {
		l.at++
		if !l.digits(NoFraction) {
			return
		}
	}
	if l.at < len(b) && (b[l.at] == 'e' || b[l.at] == 'E') {
		l.at++
		if l.at < len(b) && (b[l.at] == '+' || b[l.at] == '-') {
			l.at++
		}
		l.digits(NoExponent)
	}
}

// digits passes one or more digits; none is a problem.
func (l *lexer) digits(problem Problem) bool {
	start := l.at
	for l.at < len(l.text) && isDigit(l.text[l.at]) {
		l.at++
	}
	if l.at == start {
		l.refuse(problem, start)
	}
	return l.at > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (l *lexer) word(w string) {
	if len(l.text)-l.at < len(w) || string(l.text[l.at:l.at+len(w)]) != w {
		l.refuse(NoValue, l.at)
		return
	}
	l.at += len(w)
}
