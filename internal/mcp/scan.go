package mcp

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The scanner walks over JSON (RFC 8259) without decoding it. It accepts what
// encoding/json accepts, but for nesting deeper than MaxDepth.

// syntaxError says where a text stops being JSON.
type syntaxError struct {
	offset int
	what   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.offset) }

func syntax(i int, what string) error { return &syntaxError{offset: i, what: what} }

func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// skipValue returns the index after the value that starts at b[i]. depth counts
// the arrays and objects around it.
func skipValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, syntax(i, "unexpected end")
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{':
		return skipObject(b, i, depth)
	case c == '[':
		return skipArray(b, i, depth)
	case c == '-' || isDigit(c):
		return skipNumber(b, i)
	case c == 't':
		return skipLiteral(b, i, "true")
	case c == 'f':
		return skipLiteral(b, i, "false")
	case c == 'n':
		return skipLiteral(b, i, "null")
	default:
		return i, syntax(i, "unexpected character")
	}
}

func skipObject(b []byte, i, depth int) (int, error) {
	it, err := openObject(b, i, depth)
	if err != nil {
		return i, err
	}
	for it.next() {
	}
	return it.i, it.err
}

func skipArray(b []byte, i, depth int) (int, error) {
	it, err := openArray(b, i, depth)
	if err != nil {
		return i, err
	}
	for it.next() {
	}
	return it.i, it.err
}

func skipLiteral(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, syntax(i, "unexpected character")
	}
	return i + len(word), nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func skipDigits(b []byte, i int) (int, error) {
	if i >= len(b) || !isDigit(b[i]) {
		return i, syntax(i, "expected a digit")
	}
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i, nil
}

func skipNumber(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	var err error
	if i < len(b) && b[i] == '0' { // no leading zeros
		i++
	} else if i, err = skipDigits(b, i); err != nil {
		return i, err
	}
	if i < len(b) && b[i] == '.' {
		if i, err = skipDigits(b, i+1); err != nil {
			return i, err
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i, err = skipDigits(b, i); err != nil {
			return i, err
		}
	}
	return i, nil
}

// skipString returns the index after the closing quote of the string at b[i].
func skipString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		c := b[i]
		if c == '"' {
			return i + 1, nil
		}
		if c < 0x20 {
			return i, syntax(i, "control character in a string")
		}
		if c != '\\' {
			continue
		}
		i++
		if i >= len(b) {
			break
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if len(b)-i < 5 || !isHex(b[i+1]) || !isHex(b[i+2]) || !isHex(b[i+3]) || !isHex(b[i+4]) {
				return i, syntax(i, "bad escape in a string")
			}
			i += 4
		default:
			return i, syntax(i, "bad escape in a string")
		}
	}
	return i, syntax(i, "unexpected end")
}

// items iterates over the members of one object or the elements of one array.
// After next has returned true, key (objects) and value hold the raw JSON of
// the current item; after it has returned false, err says whether the whole
// container was well formed and i is the index after it.
type items struct {
	b          []byte
	i          int
	depth      int
	close      byte
	begun      bool
	key, value []byte
	start, end int // of value in b
	err        error
}

func openObject(b []byte, i, depth int) (items, error) { return open(b, i, depth, '{', '}') }

func openArray(b []byte, i, depth int) (items, error) { return open(b, i, depth, '[', ']') }

func open(b []byte, i, depth int, opening, closing byte) (items, error) {
	if i >= len(b) || b[i] != opening {
		return items{}, syntax(i, "expected "+string(rune(opening)))
	}
	if depth >= MaxDepth {
		return items{}, syntax(i, fmt.Sprintf("nesting deeper than %d", MaxDepth))
	}
	return items{b: b, i: i + 1, depth: depth + 1, close: closing}, nil
}

func (it *items) next() bool {
	ok, err := it.advance()
	it.err = err
	return ok && err == nil
}

func (it *items) advance() (bool, error) {
	b, i := it.b, skipSpace(it.b, it.i)
	if i >= len(b) {
		return false, syntax(i, "unexpected end")
	}
	if b[i] == it.close {
		it.i = i + 1
		return false, nil
	}
	if it.begun {
		if b[i] != ',' {
			return false, syntax(i, "expected a comma")
		}
		i = skipSpace(b, i+1)
	}
	it.begun = true
	var err error
	if it.close == '}' {
		if i, err = it.readKey(i); err != nil {
			return false, err
		}
	}
	end, err := skipValue(b, i, it.depth)
	if err != nil {
		return false, err
	}
	// The capacity ends with the value: an append to it cannot reach its neighbour.
	it.value, it.start, it.end, it.i = b[i:end:end], i, end, end
	return true, nil
}

func (it *items) readKey(i int) (int, error) {
	b := it.b
	if i >= len(b) || b[i] != '"' {
		return i, syntax(i, "expected a key")
	}
	end, err := skipString(b, i)
	if err != nil {
		return i, err
	}
	it.key = b[i:end:end]
	i = skipSpace(b, end)
	if i >= len(b) || b[i] != ':' {
		return i, syntax(i, "expected a colon")
	}
	return skipSpace(b, i+1), nil
}

// unquote decodes the JSON string b, quotes included, that the scanner has
// accepted. ok is false when it holds half of a surrogate pair: readers
// disagree about what such a string is, so it must not be compared.
func unquote(b []byte) (s string, ok bool) {
	b = b[1 : len(b)-1]
	if !containsBackslash(b) {
		return string(b), true
	}
	ok = true
	var out strings.Builder
	out.Grow(len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out.WriteByte(b[i])
			continue
		}
		i++
		if b[i] != 'u' {
			out.WriteByte(unescaped(b[i]))
			continue
		}
		r := hex4(b[i+1:])
		i += 4
		if utf16.IsSurrogate(r) {
			low := utf8.RuneError
			if len(b)-i > 6 && b[i+1] == '\\' && b[i+2] == 'u' {
				low = utf16.DecodeRune(r, hex4(b[i+3:]))
			}
			if low == utf8.RuneError {
				ok = false
			} else {
				i += 6
			}
			r = low
		}
		out.WriteRune(r)
	}
	return out.String(), ok
}

func containsBackslash(b []byte) bool {
	for _, c := range b {
		if c == '\\' {
			return true
		}
	}
	return false
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default: // quote, backslash, slash
		return c
	}
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c >= 'a':
			r = r<<4 | rune(c-'a'+10)
		default:
			r = r<<4 | rune(c-'A'+10)
		}
	}
	return r
}

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
