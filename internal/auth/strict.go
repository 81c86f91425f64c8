package auth

import (
	"errors"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// strict makes all readers of a token, a key set or a provider's response read it
// alike (RFC 7519 section 4 and RFC 7515 section 4: names are unique; RFC 8259 section
// 8).
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
	members, _ := s.Decoded().(map[string]any)
	if err := s.End(); err != nil {
		return nil, withoutText(err)
	}
	return members, nil
}

// withoutText is a fault without names and offsets, which may reveal a secret or its
// length.
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
