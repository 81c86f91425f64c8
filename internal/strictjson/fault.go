package strictjson

import "fmt"

// Problem is what can be wrong with a text.
type Problem uint8

// What is no JSON (RFC 8259), from NoValue on; then what the bound and the rules
// refuse, from TooDeep on.
const (
	NoValue Problem = iota + 1
	NoName
	NoColon
	NoCommaInObject
	NoCommaInArray
	NoDigits
	NoFraction
	NoExponent
	ControlCharacter
	NoSuchEscape
	NoHexadecimal
	NotTheEnd
	// TheEnd is that of a text in a string or behind the { of an object. Where a
	// text ends elsewhere, the problem is what is missing, at the index behind it.
	TheEnd
	// AnotherKind: the value is of another kind than the caller requires.
	AnotherKind

	TooDeep
	NameTwice
	HalfCharacter
	NUL
	NotUTF8
)

var sentences = [...]string{
	NoValue:          "there is no value where one must be",
	NoName:           "a member needs a name in quotes",
	NoColon:          "a colon must follow the name of a member",
	NoCommaInObject:  "a comma or } must follow a member",
	NoCommaInArray:   "a comma or ] must follow a value",
	NoDigits:         "a number has no digits",
	NoFraction:       "a number has no digits after its point",
	NoExponent:       "a number has no digits after its e",
	ControlCharacter: "a text holds a control character that is not escaped",
	NoSuchEscape:     "a text holds an escape that there is not",
	NoHexadecimal:    `a text holds a \u without four digits`,
	NotTheEnd:        "something follows the end of it",
	TheEnd:           "it ends too early",
	AnotherKind:      "it is a value of another kind",
	TooDeep:          "it is nested too deeply",
	NameTwice:        "a member is there twice",
	HalfCharacter:    "a text holds half of a surrogate pair",
	NUL:              "a text holds the character NUL",
	NotUTF8:          "it is not UTF-8",
}

// String is the problem as a sentence about the text.
func (p Problem) String() string {
	if int(p) >= len(sentences) {
		return ""
	}
	return sentences[p]
}

// Fault is a problem of a text, and its offset.
type Fault struct {
	Problem Problem
	// Offset is an index in the text. A member that is there twice is found
	// behind the end of its object.
	Offset int
	// AtEnd: Offset is the end of the text, where something is missing.
	AtEnd bool
	// Name is the one that is there twice. Error does not repeat it.
	Name string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s at byte %d", f.Sentence(), f.Offset) }

// Sentence is what is wrong without where: what is missing at the end is the end.
func (f *Fault) Sentence() string {
	if f.AtEnd && f.Problem < TooDeep {
		return TheEnd.String()
	}
	return f.Problem.String()
}

// Refuse stops the scanner at its index, for a problem that its user detects.
func (s *Scanner) Refuse(p Problem) {
	if s.fault == nil {
		s.refuse(p, s.at)
	}
}

// refuseKind is the fault of a value of another kind than the caller requires.
func (s *Scanner) refuseKind() {
	if s.Kind() != 0 {
		s.refuse(AnotherKind, s.at)
	}
}
