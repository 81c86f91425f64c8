package serverjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/strictjson"
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

// rules are what is refused beyond what is no JSON. Numbers stay as written.
const rules = strictjson.UniqueNames | strictjson.WholeCharacters | strictjson.UTF8 | strictjson.NoNUL

// scan passes over a text and refuses what the rules refuse, and values nested
// deeper than depth. An error names the line.
func scan(text []byte, depth int) (scanned, error) {
	// An array or object one deeper may be there, with no value in it.
	s := &scanner{Scanner: strictjson.New(text, depth+1, rules), room: depth}
	s.value(0)
	if err := s.End(); err != nil {
		return scanned{}, scanFault(text, depth, err)
	}
	out := scanned{compact: text}
	if s.Blanks() > 0 {
		out.compact = compact(text, len(text)-s.Blanks())
	}
	if len(s.top) > 0 {
		out.members = make([]member, 0, len(s.top))
	}
	for _, m := range s.top {
		out.members = append(out.members, member{m.name, out.compact[m.from:m.to]})
	}
	return out, nil
}

// compact is a text that has been scanned without its blanks, size bytes long. It
// is json.Compact without a second look at the grammar.
func compact(text []byte, size int) []byte {
	out := make([]byte, 0, size)
	for at := 0; at < len(text); at = strictjson.SkipBlanks(text, at) {
		start := at
		for at < len(text) && text[at] > ' ' {
			if text[at] == '"' {
				for at++; text[at] != '"'; at++ {
					if text[at] == '\\' {
						at++
					}
				}
			}
			at++
		}
		out = append(out, text[start:at]...)
	}
	return out
}

// scanFault is what is wrong with a text, and where.
func scanFault(text []byte, depth int, err error) error {
	var fault *strictjson.Fault
	if !errors.As(err, &fault) {
		return err
	}
	message := fault.Sentence()
	switch fault.Problem {
	case strictjson.NotUTF8, strictjson.HalfCharacter, strictjson.NUL:
	case strictjson.TooDeep:
		message = fmt.Sprintf("it is nested deeper than %d", depth)
	case strictjson.NameTwice:
		message = fmt.Sprintf("the member %.100q is there twice", fault.Name)
	default:
		message = "it is not JSON: " + message
	}
	return fmt.Errorf("line %d: %s", 1+bytes.Count(text[:fault.Offset], []byte("\n")), message)
}

type scanner struct {
	strictjson.Scanner
	room int // how deep values may be nested
	top  []topMember
}

// topMember is a member of the outermost object, its place in the compact text.
type topMember struct {
	name     string
	from, to int
}

// place is where the scanner stands, in the compact text.
func (s *scanner) place() int { return s.At() - s.Blanks() }

func (s *scanner) value(depth int) {
	if depth > s.room {
		s.Refuse(strictjson.TooDeep)
		return
	}
	kind := s.Kind()
	if kind != '{' && kind != '[' {
		s.Value()
		return
	}
	for items := s.Enter(); s.Next(&items); {
		from := s.place()
		if depth > 0 || kind == '[' {
			s.value(depth + 1)
			continue
		}
		name := s.Name()
		s.value(depth + 1)
		s.top = append(s.top, topMember{name, from, s.place()})
	}
}
