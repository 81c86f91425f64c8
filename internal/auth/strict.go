package auth

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Strict JSON: what a token, a key set or a provider's answer says must be
// something that every reader reads alike. encoding/json takes the last of
// several members of one name, matches names without regard to case, and mends
// bad UTF-8; here the first two cannot happen and the third is an error
// (RFC 7519 section 4 and RFC 7515 section 4: names are unique; RFC 8259
// section 8).

// maxDepth bounds nesting. Claims of real tokens are a few levels deep.
const maxDepth = 32

var (
	errNotJSON   = errors.New("it is not JSON")
	errNotObject = errors.New("it is not a JSON object")
	errDuplicate = errors.New("it has two members of one name")
	errTooDeep   = errors.New("it is nested too deeply")
)

// decodeObject reads exactly one JSON object. Values are as encoding/json's, with
// numbers as json.Number. Errors never quote the text.
func decodeObject(b []byte) (map[string]any, error) {
	s := scanner{b: b}
	s.space()
	if s.peek() != '{' {
		return nil, errNotObject
	}
	v, err := s.value(0)
	if err != nil {
		return nil, err
	}
	if s.space(); s.i != len(b) {
		return nil, errNotJSON
	}
	return v.(map[string]any), nil
}

// scanner decodes the JSON text b (RFC 8259), from i on.
type scanner struct {
	b []byte
	i int
}

// peek is the next byte, 0 at the end, which starts no value.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// value decodes the value that starts here; depth counts what is around it.
func (s *scanner) value(depth int) (any, error) {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '{' || c == '[':
		if depth >= maxDepth {
			return nil, errTooDeep
		}
		s.i++
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return true, s.word("true")
	case c == 'f':
		return false, s.word("false")
	case c == 'n':
		return nil, s.word("null")
	}
	return nil, errNotJSON
}

func (s *scanner) object(depth int) (any, error) {
	members := make(map[string]any, 8)
	for s.space(); s.peek() != '}'; s.space() {
		if len(members) > 0 && !s.take(',') {
			return nil, errNotJSON
		}
		s.space()
		if s.peek() != '"' {
			return nil, errNotJSON
		}
		name, err := s.text()
		if err != nil {
			return nil, err
		}
		if _, twice := members[name]; twice {
			return nil, errDuplicate
		}
		if s.space(); !s.take(':') {
			return nil, errNotJSON
		}
		s.space()
		if members[name], err = s.value(depth); err != nil {
			return nil, err
		}
	}
	s.i++
	return members, nil
}

func (s *scanner) array(depth int) (any, error) {
	elements := []any{}
	for s.space(); s.peek() != ']'; s.space() {
		if len(elements) > 0 && !s.take(',') {
			return nil, errNotJSON
		}
		s.space()
		v, err := s.value(depth)
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
	}
	s.i++
	return elements, nil
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) word(w string) error {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return errNotJSON
	}
	s.i += len(w)
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) digits() bool {
	start := s.i
	for isDigit(s.peek()) {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() (any, error) {
	start := s.i
	s.take('-')
	// No leading zeros.
	ok := s.take('0') || s.digits()
	if ok && s.take('.') {
		ok = s.digits()
	}
	if ok && (s.take('e') || s.take('E')) {
		_ = s.take('+') || s.take('-')
		ok = s.digits()
	}
	if !ok {
		return nil, errNotJSON
	}
	return json.Number(s.b[start:s.i]), nil
}

// text decodes a string. Most have no escapes and are taken as they are.
func (s *scanner) text() (string, error) {
	s.i++ // the quote
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			raw := s.b[start:s.i]
			s.i++
			if !utf8.Valid(raw) {
				return "", errNotJSON
			}
			return string(raw), nil
		case c == '\\':
			return s.escapedText(start)
		case c < ' ':
			return "", errNotJSON
		}
		s.i++
	}
	return "", errNotJSON
}

// escapedText goes on with a string that began at start, from its first escape.
func (s *scanner) escapedText(start int) (string, error) {
	out := append([]byte(nil), s.b[start:s.i]...)
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				return "", errNotJSON
			}
			return string(out), nil
		case c < ' ':
			return "", errNotJSON
		case c != '\\':
			out = append(out, c)
		default:
			r, ok := s.escape()
			if !ok {
				return "", errNotJSON
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", errNotJSON
}

// escape decodes what follows a backslash. Half of a surrogate pair is an error.
func (s *scanner) escape() (rune, bool) {
	c := s.peek()
	s.i++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		r, ok := s.hex4()
		if !ok || !utf16.IsSurrogate(r) {
			return r, ok
		}
		if !s.take('\\') || !s.take('u') {
			return 0, false
		}
		low, ok := s.hex4()
		pair := utf16.DecodeRune(r, low)
		return pair, ok && pair != utf8.RuneError
	}
	return 0, false
}

func (s *scanner) hex4() (rune, bool) {
	if len(s.b)-s.i < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.b[s.i:s.i+4]), 16, 16)
	if err != nil || s.b[s.i] == '+' {
		return 0, false
	}
	s.i += 4
	return rune(n), true
}
