// Package strictjson reads JSON (RFC 8259) from outside. It rejects texts that two
// parsers may read differently, such as the one that decides and the one that acts.
//
// A [Scanner] moves over a text once, value by value. It does not allocate, and
// decodes only the values that are read. It always rejects invalid JSON and unbounded
// nesting. What else parsers read differently is rejected by [Rules], which the caller
// selects: a token is read strictly, while a gateway forwards unchanged what it does
// not decide by.
//
//	s := strictjson.New(text, 32, strictjson.UniqueNames|strictjson.WholeCharacters|strictjson.UTF8)
//	for members := s.Enter(); s.Next(&members); {
//		switch s.Name() {
//		case "iss":
//			issuer = s.Text()
//		default:
//			s.Value()
//		}
//	}
//	if err := s.End(); err != nil {
//
// The first fault stops a scanner: after it there are no more members and no values,
// so that loops end without a check of their own. The values read before are valid
// only if [Scanner.Err] or [Scanner.End] returns nil.
//
// A [Fault] names the problem and its offset. It does not quote the text, which may be
// a secret.
package strictjson

// Rules are what is rejected in addition to invalid JSON. The zero Rules accept what
// encoding/json accepts, except for the bound on nesting.
type Rules uint8

// The rules of I-JSON (RFC 7493), and one that C and databases impose.
const (
	// UniqueNames rejects an object with two members of one name, escapes decoded
	// (section 2.3): parsers use the first, the last or both. Names that differ in
	// case are two names; a caller whose next parser ignores case must handle them.
	UniqueNames Rules = 1 << iota
	// WholeCharacters rejects the escape of half of a surrogate pair, which has no
	// UTF-8 encoding (section 2.1): parsers replace it, keep it or fail.
	WholeCharacters
	// UTF8 rejects a text that is not UTF-8 (section 2.1; RFC 8259 section 8.1):
	// parsers repair it in different ways.
	UTF8
	// NoNUL rejects the escape of the character NUL, which ends a text in some
	// languages and which databases do not store. Unescaped it is invalid JSON.
	NoNUL
)

// Scanner is a position in a text, before or after a value. The values that it returns
// are parts of the text. The zero Scanner has an empty text.
type Scanner struct {
	lexer
	depth int // arrays and objects around at
	room  int // how many there may be

	key     []byte // of the member whose value begins at, as it is written
	escaped bool   // whether there are escapes in key
	names   names
}

// New returns a Scanner before the one value of text. Arrays and objects may be nested
// room levels deep.
func New(text []byte, room int, rules Rules) Scanner {
	s := Scanner{lexer: lexer{text: text, rules: rules}, room: room}
	if rules&UTF8 != 0 {
		s.checkUTF8()
	}
	return s
}

// Seek sets the index of the scanner. A value must begin there.
func (s *Scanner) Seek(at int) { s.at = at }

// At returns the scanner's index in the text.
func (s *Scanner) At() int { return s.at }

// Blanks returns the number of white-space bytes between tokens that the scanner has
// passed since [New]. In the same text without them, its index is At - Blanks.
func (s *Scanner) Blanks() int { return s.blanks }

// Err returns the [*Fault] that stopped the scanner, or nil.
func (s *Scanner) Err() error {
	if s.fault == nil {
		return nil // not a nil *Fault in an error
	}
	return s.fault
}

// End returns nil if only white space follows: the text is one value within the rules.
// Otherwise the error is a [*Fault].
func (s *Scanner) End() error {
	if s.fault == nil {
		s.pass()
		if s.at < len(s.text) {
			s.refuse(NotTheEnd, s.at)
		}
	}
	return s.Err()
}

// Kind returns the kind of the next value: one of the bytes
//
//	{ [ " t f n
//
// with which it begins, or the digit 0 for a number. It returns the byte 0 when no
// value begins here, which is a fault. The value is not passed.
func (s *Scanner) Kind() byte {
	if s.fault != nil {
		return 0
	}
	s.pass()
	if s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' || c == 'n':
			return c
		case c == '-' || isDigit(c):
			return '0'
		}
	}
	s.refuse(NoValue, s.at)
	return 0
}

// Value passes the next value and returns its text; nil after a fault.
func (s *Scanner) Value() []byte {
	if s.fault != nil {
		return nil
	}
	s.pass()
	start := s.at
	s.skip()
	if s.fault != nil {
		return nil
	}
	// The capacity ends with the value: an append to it does not change the text.
	return s.text[start:s.at:s.at]
}

// Text passes the next value, which must be a string, and returns it decoded. Half of a
// surrogate pair, unless a rule rejects it, becomes U+FFFD.
func (s *Scanner) Text() string {
	if s.fault != nil {
		return ""
	}
	s.pass()
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		s.refuseKind()
		return ""
	}
	start := s.at
	escaped := s.quoted()
	if s.fault != nil {
		return ""
	}
	if !escaped {
		return string(s.text[start+1 : s.at-1])
	}
	text, _ := Unquote(s.text[start:s.at])
	return text
}

// skip passes a value that begins at the scanner's index.
func (s *Scanner) skip() {
	if s.at >= len(s.text) {
		s.refuse(NoValue, s.at)
		return
	}
	switch c := s.text[s.at]; {
	case c == '"':
		s.quoted()
	case c == '{' || c == '[':
		for items := s.Enter(); s.Next(&items); {
			s.skip()
		}
	case c == '-' || isDigit(c):
		s.number()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.refuse(NoValue, s.at)
	}
}
