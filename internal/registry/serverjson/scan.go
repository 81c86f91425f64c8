package serverjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// member is a member of an object. Its value is compact.
type member struct {
	name  string
	value json.RawMessage
}

// find is the value of a member, or nil.
func find(members []member, name string) json.RawMessage {
	for _, m := range members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// scanned is JSON (RFC 8259) that every reader understands alike and every
// database can keep.
type scanned struct {
	compact []byte   // without blanks; may be the text itself
	members []member // when it is an object
}

// scan passes once over a text. Beyond what is no JSON it refuses what readers
// disagree about (RFC 7493 sections 2.1 and 2.3): a member that is there twice,
// at any depth, and half of a surrogate pair; the character NUL, which databases
// do not keep; and values nested deeper than depth. Numbers stay as written.
func scan(text []byte, depth int) (scanned, error) {
	s := &scanner{text: text, room: depth}
	if at := invalidUTF8(text); at >= 0 {
		s.at = at
		return scanned{}, s.fault("it is not UTF-8")
	}
	if err := s.value(0); err != nil {
		return scanned{}, err
	}
	s.blanks()
	if s.at < len(text) {
		return scanned{}, s.notJSON("something follows the end of it")
	}
	out := scanned{compact: text}
	if s.kept > 0 {
		out.compact = append(s.compact, text[s.kept:]...)
	}
	for _, m := range s.top {
		out.members = append(out.members, member{m.name, out.compact[m.from:m.to]})
	}
	return out, nil
}

func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// scanFault is what is wrong with a text, and where.
type scanFault struct {
	message string
	line    int
}

func (f *scanFault) Error() string { return fmt.Sprintf("line %d: %s", f.line, f.message) }

type scanner struct {
	text []byte
	at   int
	room int // how deep values may be nested
	// compact is what was passed before kept, without blanks.
	compact []byte
	kept    int
	keys    [][]byte // of the objects that are open
	top     []topMember
}

// topMember is a member of the outermost object, its place in the compact text.
type topMember struct {
	name     string
	from, to int
}

func (s *scanner) fault(format string, args ...any) error {
	at := min(s.at, len(s.text))
	return &scanFault{fmt.Sprintf(format, args...), 1 + bytes.Count(s.text[:at], []byte("\n"))}
}

func (s *scanner) notJSON(why string) error {
	if s.at >= len(s.text) {
		why = "it ends too early"
	}
	return s.fault("it is not JSON: %s", why)
}

// next is the byte that the scanner stands before; 0, which is nowhere allowed,
// at the end.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) blanks() {
	start := s.at
	for s.at < len(s.text) {
		if c := s.text[s.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			break
		}
		s.at++
	}
	if s.at > start {
		if s.compact == nil {
			s.compact = make([]byte, 0, len(s.text))
		}
		s.compact = append(s.compact, s.text[s.kept:start]...)
		s.kept = s.at
	}
}

// place is where the scanner stands, in the compact text.
func (s *scanner) place() int { return len(s.compact) + s.at - s.kept }

func (s *scanner) value(depth int) error {
	if depth > s.room {
		return s.fault("it is nested deeper than %d", s.room)
	}
	s.blanks()
	switch c := s.next(); {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, _, err := s.string()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.text[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return s.notJSON("there is no value where one must be")
}

func (s *scanner) object(depth int) error {
	base := len(s.keys)
	s.at++
	s.blanks()
	if s.next() == '}' {
		s.at++
		return nil
	}
	for {
		s.blanks()
		if s.next() != '"' {
			return s.notJSON("a member needs a name in quotes")
		}
		raw, escaped, err := s.string()
		if err != nil {
			return err
		}
		key := raw[1 : len(raw)-1]
		if escaped {
			var plain string
			if err := json.Unmarshal(raw, &plain); err != nil {
				return s.notJSON("a member's name cannot be read")
			}
			key = []byte(plain)
		}
		s.keys = append(s.keys, key)
		s.blanks()
		if s.next() != ':' {
			return s.notJSON("a colon must follow the name of a member")
		}
		s.at++
		s.blanks()
		from := s.place()
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if depth == 0 {
			s.top = append(s.top, topMember{string(key), from, s.place()})
		}
		s.blanks()
		switch s.next() {
		case ',':
			s.at++
			continue
		case '}':
			s.at++
			if twice := repeated(s.keys[base:]); twice != nil {
				return s.fault("the member %.100q is there twice", twice)
			}
			s.keys = s.keys[:base]
			return nil
		}
		return s.notJSON("a comma or } must follow a member")
	}
}

// repeated finds a key that is there twice, without comparing the keys of a
// large object pair by pair.
func repeated(keys [][]byte) []byte {
	if len(keys) <= 12 {
		for i, key := range keys {
			for _, other := range keys[:i] {
				if bytes.Equal(key, other) {
					return key
				}
			}
		}
		return nil
	}
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i], keys[i-1]) {
			return keys[i]
		}
	}
	return nil
}

func (s *scanner) array(depth int) error {
	s.at++
	s.blanks()
	if s.next() == ']' {
		s.at++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.blanks()
		switch s.next() {
		case ',':
			s.at++
			continue
		case ']':
			s.at++
			return nil
		}
		return s.notJSON("a comma or ] must follow a value")
	}
}

// number is RFC 8259 section 6.
func (s *scanner) number() error {
	if s.next() == '-' {
		s.at++
	}
	switch {
	case s.next() == '0':
		s.at++
	case s.digits() == 0:
		return s.notJSON("a number has no digits")
	}
	if s.next() == '.' {
		s.at++
		if s.digits() == 0 {
			return s.notJSON("a number has no digits after its point")
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		s.at++
		if c := s.next(); c == '+' || c == '-' {
			s.at++
		}
		if s.digits() == 0 {
			return s.notJSON("a number has no digits after its e")
		}
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.at
	for c := s.next(); '0' <= c && c <= '9'; c = s.next() {
		s.at++
	}
	return s.at - start
}
