package strictjson

import "unicode/utf16"

// quoted passes the string that begins at the scanner's index (RFC 8259 section 7), and
// reports whether it has escapes.
func (s *Scanner) quoted() (escaped bool) {
	b := s.text
	for i := s.at + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c > '\\': // most are
		case c == '"':
			s.at = i + 1
			return escaped
		case c == '\\':
			escaped = true
			if i = s.escape(i + 1); s.fault != nil {
				return escaped
			}
		case c < ' ':
			s.refuse(ControlCharacter, i)
			return escaped
		}
	}
	s.refuse(TheEnd, len(b))
	return escaped
}

// escape looks at what follows a backslash, at i, and returns the index of its
// last byte.
func (s *Scanner) escape(i int) int {
	b := s.text
	if i >= len(b) {
		s.refuse(TheEnd, i)
		return i
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
	default:
		s.refuse(NoSuchEscape, i)
		return i
	}
	r, ok := hex4(b, i+1)
	switch {
	case !ok:
		s.refuse(NoHexadecimal, i)
		return i
	case r == 0 && s.rules&NoNUL != 0:
		s.refuse(NUL, i)
		return i
	case s.rules&WholeCharacters == 0 || !utf16.IsSurrogate(r):
		return i + 4
	}
	if _, ok := pair(b, i+1); !ok {
		s.refuse(HalfCharacter, i)
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
func (s *Scanner) number() {
	b := s.text
	if b[s.at] == '-' {
		s.at++
	}
	if s.at < len(b) && b[s.at] == '0' { // no leading zeros
		s.at++
	} else if !s.digits(NoDigits) {
		return
	}
	if s.at < len(b) && b[s.at] == '.' {
		s.at++
		if !s.digits(NoFraction) {
			return
		}
	}
	if s.at < len(b) && (b[s.at] == 'e' || b[s.at] == 'E') {
		s.at++
		if s.at < len(b) && (b[s.at] == '+' || b[s.at] == '-') {
			s.at++
		}
		s.digits(NoExponent)
	}
}

// digits passes one or more digits; none is a problem.
func (s *Scanner) digits(problem Problem) bool {
	start := s.at
	for s.at < len(s.text) && isDigit(s.text[s.at]) {
		s.at++
	}
	if s.at == start {
		s.refuse(problem, start)
	}
	return s.at > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *Scanner) word(w string) {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		s.refuse(NoValue, s.at)
		return
	}
	s.at += len(w)
}
