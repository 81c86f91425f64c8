package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// The scanner walks over JSON (RFC 8259) without decoding it. It accepts what
// encoding/json accepts, but for nesting deeper than MaxDepth: what else readers
// disagree about is refused where a decision rests on it ([Parse], [Lookup]), and
// passed on everywhere else. Here internal/strictjson speaks as our clients and
// servers are used to being answered.

// syntaxError says where a text stops being JSON.
type syntaxError struct {
	offset int
	what   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.offset) }

func syntax(i int, what string) error { return &syntaxError{offset: i, what: what} }

// refusal is what stopped a scanner, or nil.
func refusal(err error) error {
	if err == nil {
		return nil // before fault is allocated
	}
	var fault *strictjson.Fault
	if !errors.As(err, &fault) {
		return err
	}
	return syntax(fault.Offset, problem(fault))
}

func problem(f *strictjson.Fault) string {
	switch f.Problem {
	case strictjson.NoName:
		return "expected a key"
	case strictjson.NoColon:
		return "expected a colon"
	case strictjson.NoDigits, strictjson.NoFraction, strictjson.NoExponent:
		return "expected a digit"
	case strictjson.ControlCharacter:
		return "control character in a string"
	case strictjson.NoSuchEscape, strictjson.NoHexadecimal:
		return "bad escape in a string"
	case strictjson.TooDeep:
		return fmt.Sprintf("nesting deeper than %d", MaxDepth)
	}
	// A value, a comma or a quote is missing.
	switch {
	case f.AtEnd:
		return "unexpected end"
	case f.Problem == strictjson.NoCommaInObject || f.Problem == strictjson.NoCommaInArray:
		return "expected a comma"
	}
	return "unexpected character"
}

func skipSpace(b []byte, i int) int { return strictjson.SkipBlanks(b, i) }

// skipValue returns the index after the value that starts at b[i]. depth counts
// the arrays and objects around it.
func skipValue(b []byte, i, depth int) (int, error) {
	if i < len(b) && b[i] <= ' ' {
		return i, syntax(i, "unexpected character") // a blank is no part of a value
	}
	s := scannerAt(b, i, depth)
	s.Value()
	return s.At(), refusal(s.Err())
}

func scannerAt(b []byte, i, depth int) strictjson.Scanner {
	s := strictjson.New(b, MaxDepth-depth, 0)
	s.Seek(i)
	return s
}

// items iterates over the members of one object or the elements of one array.
// After next has returned true, key (objects) and value hold the raw JSON of
// the current item; after it has returned false, err says whether the whole
// container was well formed and i is the index after it.
type items struct {
	scanner    strictjson.Scanner
	walk       strictjson.Items
	i          int
	key, value []byte
	start, end int // of value in b
	err        error
}

//nolint:unparam // so far every object is looked at by itself
func openObject(b []byte, i, depth int) (items, error) { return open(b, i, depth, '{') }

func openArray(b []byte, i, depth int) (items, error) { return open(b, i, depth, '[') }

func open(b []byte, i, depth int, opening byte) (it items, err error) {
	if i >= len(b) || b[i] != opening {
		return it, syntax(i, "expected "+string(rune(opening)))
	}
	it.scanner = strictjson.New(b, MaxDepth-depth, 0)
	it.scanner.Seek(i)
	it.walk = it.scanner.Enter()
	return it, refusal(it.scanner.Err())
}

func (it *items) next() bool {
	s := &it.scanner
	if s.Next(&it.walk) {
		it.key, it.start = s.Key(), s.At()
		it.value, it.end = s.Value(), s.At()
		if it.value != nil {
			return true
		}
	}
	it.i, it.err = s.At(), refusal(s.Err())
	return false
}

// unquote decodes the JSON string b, quotes included, that the scanner has
// accepted. ok is false when it holds half of a surrogate pair: readers
// disagree about what such a string is, so it must not be compared.
func unquote(b []byte) (s string, ok bool) { return strictjson.Unquote(b) }

func containsBackslash(b []byte) bool { return bytes.IndexByte(b, '\\') >= 0 }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

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
