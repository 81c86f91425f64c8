package auth

import (
	"encoding/json"
	"errors"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// What a token, a key set or a provider's answer says must be something that
// every reader reads alike (RFC 7519 section 4 and RFC 7515 section 4: names are
// unique; RFC 8259 section 8). internal/strictjson sees to it; here is what is
// made of it.
const strict = strictjson.UniqueNames | strictjson.WholeCharacters | strictjson.UTF8

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
	s := strictjson.New(b, maxDepth, strict)
	if s.Err() == nil && s.Kind() != '{' {
		return nil, errNotObject
	}
	members := decodeMembers(&s)
	if err := s.End(); err != nil {
		return nil, withoutText(err)
	}
	return members, nil
}

// withoutText is what may be said of a fault: not the name that is there twice,
// nor the place, which tells how long a secret is.
func withoutText(err error) error {
	var fault *strictjson.Fault
	if errors.As(err, &fault) {
		switch fault.Problem {
		case strictjson.NameTwice:
			return errDuplicate
		case strictjson.TooDeep:
			return errTooDeep
		}
	}
	return errNotJSON
}

// decodeValue decodes the value that begins here; it counts while s has no fault.
func decodeValue(s *strictjson.Scanner) any {
	switch s.Kind() {
	case '{':
		return decodeMembers(s)
	case '[':
		elements := []any{}
		for items := s.Enter(); s.Next(&items); {
			elements = append(elements, decodeValue(s))
		}
		return elements
	case '"':
		return s.Text()
	case '0':
		return json.Number(s.Value())
	case 't', 'f':
		return len(s.Value()) == len("true")
	default:
		s.Value()
		return nil
	}
}

func decodeMembers(s *strictjson.Scanner) map[string]any {
	members := make(map[string]any, 8)
	for items := s.Enter(); s.Next(&items); {
		name := s.Name()
		members[name] = decodeValue(s)
	}
	return members
}
