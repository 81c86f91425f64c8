// Package strictjson reads JSON (RFC 8259) that others wrote, some of whom would
// like two readers to understand it differently: the one that decides and the
// one that acts.
//
// A [Scanner] moves over a text once, value by value, without allocating and
// without decoding what it is not asked for. Two things it refuses always: what
// is no JSON, and nesting without bound. What else readers disagree about is
// refused by [Rules], of which every user of this package asks for those that
// hold where it stands: a token is nobody's but ours, while a gateway passes on
// what it does not decide by as it came.
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
// The first fault stops a scanner: from there on nothing has a next member and
// no value is there, so that a loop ends without a check of its own. What was
// gathered until then counts only when [Scanner.Err] or [Scanner.End] is nil.
//
// A [Fault] says what is wrong and where, never what the text says, which may be
// a secret. Who may quote the text finds the place in it.
package strictjson

// Rules are what is refused beyond what is no JSON. The zero Rules take what
// encoding/json takes, but for the bound on nesting.
type Rules uint8

// The rules of I-JSON (RFC 7493), and one that C and databases impose.
const (
	// UniqueNames refuses an object with two members of one name, escapes
	// decoded (section 2.3): readers take the first, the last or both. Names that
	// differ in case are two names. Who feeds a reader that ignores case keeps
	// them from it.
	UniqueNames Rules = 1 << iota
	// WholeCharacters refuses the escape of half of a surrogate pair, which has
	// no UTF-8 (section 2.1): readers replace it, keep it or fail.
	WholeCharacters
	// UTF8 refuses a text that is not UTF-8 (section 2.1; RFC 8259 section 8.1):
	// readers mend it, each in its way.
	UTF8
	// NoNUL refuses the escape of the character NUL, where some readers end and
	// which databases do not keep. Unescaped it is no JSON anyway.
	NoNUL
)

// Scanner stands in a text: before a value, or behind one. What it returns of
// the text are parts of it. The zero Scanner stands in an empty text.
type Scanner struct {
	text   []byte
	at     int
	blanks int // how many of the bytes before at are blanks between tokens
	depth  int // arrays and objects around at
	room   int // how many there may be
	rules  Rules
	fault  *Fault

	key     []byte // of the member whose value begins at, as it is written
	escaped bool   // whether there are escapes in key
	names   names
}

// New stands before the one value of text. In the text, arrays and objects may
// lie in each other room deep.
func New(text []byte, room int, rules Rules) Scanner {
	s := Scanner{text: text, room: room, rules: rules}
	if rules&UTF8 != 0 {
		s.checkUTF8()
	}
	return s
}

// Seek has the scanner stand at an index in the text where a value begins, as
// something known of the text tells.
func (s *Scanner) Seek(at int) { s.at = at }

// At is the index in the text at which the scanner stands.
func (s *Scanner) At() int { return s.at }

// Blanks counts the bytes between tokens that the scanner has passed since [New]:
// in the same text without them, it would stand at At - Blanks.
func (s *Scanner) Blanks() int { return s.blanks }

// Err is the [*Fault] that stopped the scanner, or nil.
func (s *Scanner) Err() error {
	if s.fault == nil {
		return nil // not a nil *Fault in an error
	}
	return s.fault
}

// End says whether nothing but blanks follows; if so, the text is a value that
// keeps the rules. The error is the [*Fault] that says otherwise.
func (s *Scanner) End() error {
	if s.fault == nil {
		s.pass()
		if s.at < len(s.text) {
			s.refuse(NotTheEnd, s.at)
		}
	}
	return s.Err()
}

// Kind tells what value begins here: one of the bytes
//
//	{ [ " t f n
//
// with which it begins, or 0 (the digit) for a number. It is the byte 0 when no
// value can begin here, which is a fault. The value is not passed.
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

// Value passes the value that begins here and returns it as it is written; nil
// after a fault.
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
	// The capacity ends with the value: an append to it cannot reach its neighbour.
	return s.text[start:s.at:s.at]
}

// Text passes the string that begins here and returns what it says. Half of a
// surrogate pair, where no rule refuses it, becomes U+FFFD. Another value than a
// string is a fault.
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

// skip passes a value, before whose first byte the scanner stands.
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

// pass goes on to the next token.
func (s *Scanner) pass() {
	if s.at < len(s.text) && s.text[s.at] <= ' ' {
		s.passBlanks()
	}
}

func (s *Scanner) passBlanks() {
	at := SkipBlanks(s.text, s.at)
	s.blanks += at - s.at
	s.at = at
}

// SkipBlanks returns the index of the first byte of b from i on that is no blank
// between tokens (RFC 8259 section 2).
func SkipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
