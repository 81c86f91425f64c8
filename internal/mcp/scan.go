package mcp

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// The scanner walks over JSON (RFC 8259) without decoding it. It accepts what
// encoding/json accepts, except nesting deeper than MaxDepth. Other things that readers
// disagree about are rejected where a decision rests on them ([Parse], [Lookup]), and
// forwarded elsewhere.

// fault is the error for a problem at b[i].
func fault(b []byte, i int, what strictjson.Problem) error {
	return &strictjson.Fault{Problem: what, Offset: i, AtEnd: i >= len(b)}
}

func skipSpace(b []byte, i int) int { return strictjson.SkipBlanks(b, i) }

// skipValue returns the index after the value that starts at b[i]. depth counts
// the arrays and objects around it.
func skipValue(b []byte, i, depth int) (int, error) {
	if i < len(b) && b[i] <= ' ' {
		return i, fault(b, i, strictjson.NoValue) // a value does not begin with a blank
	}
	s := scannerAt(b, i, depth)
	s.Value()
	return s.At(), s.Err()
}

func scannerAt(b []byte, i, depth int) strictjson.Scanner {
	s := strictjson.New(b, MaxDepth-depth, 0)
	s.Seek(i)
	return s
}

// items iterates over the members of one object or the elements of one array.
// After next has returned true, key (objects) and value are the raw JSON of the current
// item. After it has returned false, err is the fault of the container, nil if it was well
// formed, and i is the index after it.
type items struct {
	scanner    strictjson.Scanner
	walk       strictjson.Items
	i          int
	key, value []byte
	start, end int // of value in b
	err        error
}

//nolint:unparam // every object is scanned by itself so far
func openObject(b []byte, i, depth int) (items, error) { return open(b, i, depth, '{') }

func openArray(b []byte, i, depth int) (items, error) { return open(b, i, depth, '[') }

func open(b []byte, i, depth int, opening byte) (it items, err error) {
	if i >= len(b) || b[i] != opening {
		return it, fault(b, i, strictjson.AnotherKind)
	}
	it.scanner = strictjson.New(b, MaxDepth-depth, 0)
	it.scanner.Seek(i)
	it.walk = it.scanner.Enter()
	return it, it.scanner.Err()
}

func (it *items) next() bool { return it.begin() && it.is(it.scanner.Value()) }

// begin is the first half of next: it moves to the value of the next item.
func (it *items) begin() bool {
	s := &it.scanner
	if s.Next(&it.walk) {
		it.key, it.start = s.Key(), s.At()
		return true
	}
	it.i, it.err = s.At(), s.Err()
	return false
}

// is is the second half: value is what the scanner has read, nil after a fault.
func (it *items) is(value []byte) bool {
	it.value, it.end = value, it.scanner.At()
	if value == nil {
		it.i, it.err = it.scanner.At(), it.scanner.Err()
	}
	return value != nil
}

// unquote decodes the JSON string b, with quotes, that the scanner has accepted. ok is
// false if it has half of a surrogate pair: readers decode that differently, so it must
// not be compared.
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
