package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// Canonical writes the object raw so that equal objects become equal texts: members
// sorted, no blanks. Numbers are not changed, because a reader may distinguish 1 and 1.0.
// An absent (empty) raw is an empty object. An object that two readers could read
// differently is an error, at any depth: a member twice, or half of a surrogate pair. The
// error is an *[Error] with CodeInvalidParams.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage(`{}`), nil
	}
	s := strictjson.New(raw, MaxDepth, strictjson.UniqueNames|strictjson.WholeCharacters|strictjson.UTF8)
	s.Value()
	if err := s.End(); err != nil {
		return nil, badParams("it cannot be compared: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil || object == nil {
		return nil, badParams("it is not an object")
	}
	return json.Marshal(object) // sorts
}
