package serverjson

import (
	"strconv"
	"unicode/utf16"
)

// string passes a text (RFC 8259 section 7) and returns it with its quotes, and
// whether there are escapes in it.
func (s *scanner) string() (raw []byte, escaped bool, err error) {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[start:s.at], escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		case c < ' ':
			return nil, false, s.notJSON("a text holds a control character that is not escaped")
		}
	}
	return nil, false, s.notJSON("")
}

// escape passes an escape but for its last byte.
func (s *scanner) escape() error {
	s.at++
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
	default:
		return s.notJSON("a text holds an escape that there is not")
	}
	r, ok := s.hex4(s.at + 1)
	if !ok {
		return s.notJSON(`a text holds a \u without four digits`)
	}
	if r == 0 {
		return s.fault("a text holds the character NUL")
	}
	s.at += 4
	if !utf16.IsSurrogate(r) {
		return nil
	}
	// Half a character has no UTF-8: readers replace it, keep it or fail.
	if s.at+2 < len(s.text) && s.text[s.at+1] == '\\' && s.text[s.at+2] == 'u' {
		low, ok := s.hex4(s.at + 3)
		if ok && utf16.DecodeRune(r, low) != '\uFFFD' {
			s.at += 6
			return nil
		}
	}
	return s.fault("a text holds half of a surrogate pair")
}

func (s *scanner) hex4(at int) (rune, bool) {
	if at+4 > len(s.text) {
		return 0, false
	}
	for _, c := range s.text[at : at+4] {
		if ('0' > c || c > '9') && ('a' > c || c > 'f') && ('A' > c || c > 'F') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(s.text[at:at+4]), 16, 16)
	return rune(n), err == nil
}
