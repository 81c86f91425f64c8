package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// Lookup returns the raw JSON of the value at path, key by key from the object raw, and
// whether it exists. Keys match exactly. Nothing is found in an absent (empty) raw, nor
// below a null.
//
// Decisions rest on the objects on the path, so every reader must read them alike: it is
// an error if one has a key twice, has the key of the path in another spelling, or is not
// an object. The error is an *[Error] with CodeInvalidParams. The value is a part of raw.
func Lookup(raw json.RawMessage, path ...string) (value json.RawMessage, found bool, err error) {
	start, end, err := locate(raw, path)
	if err != nil || start < 0 {
		return nil, false, err
	}
	return raw[start:end:end], true, nil
}

// LookupString is [Lookup] for a string and decodes it. A value that is not a string, or
// has half of a surrogate pair, is an error.
func LookupString(raw json.RawMessage, path ...string) (value string, found bool, err error) {
	v, found, err := Lookup(raw, path...)
	if err != nil || !found {
		return "", false, err
	}
	if v[0] != '"' {
		return "", false, badParams("%s must be a string", dotted(path))
	}
	s, ok := unquote(v)
	if !ok {
		return "", false, badParams("%s holds half of a surrogate pair", dotted(path))
	}
	return s, true, nil
}

// Replace returns raw with the value at path replaced by value. All other bytes stay as
// they are, and raw itself is not changed. The errors are those of [Lookup], and one for a
// missing value and for a new value that is not JSON.
func Replace(raw, value json.RawMessage, path ...string) (json.RawMessage, error) {
	end, err := skipValue(value, 0, 0)
	if err != nil || end != len(value) {
		return nil, badParams("the new value of %s is not valid JSON", dotted(path))
	}
	start, end, err := locate(raw, path)
	if err != nil {
		return nil, err
	}
	if start < 0 {
		return nil, badParams("%s is not there", dotted(path))
	}
	out := make(json.RawMessage, 0, len(raw)-(end-start)+len(value))
	out = append(out, raw[:start]...)
	out = append(out, value...)
	return append(out, raw[end:]...), nil
}

// locate returns the position of the value in raw, start < 0 if there is none.
func locate(raw json.RawMessage, path []string) (start, end int, err error) {
	if len(raw) == 0 {
		return -1, -1, nil
	}
	start, end = skipSpace(raw, 0), len(raw)
	if len(path) == 0 || start == len(raw) || raw[start] != '{' {
		if end, err = skipValue(raw, start, 0); err == nil {
			err = nothingElse(raw, end)
		}
		if err != nil {
			return -1, -1, badParams("not valid JSON: %v", err)
		}
	}
	for n, key := range path {
		if n > 0 && raw[start] == 'n' {
			return -1, -1, nil // some clients write "_meta": null for none
		}
		if raw[start] != '{' {
			return -1, -1, badParams("%s must be an object", dotted(path[:n]))
		}
		s, e, after, err := member(raw[:end], start, key)
		if err == nil && n == 0 {
			if err = nothingElse(raw, after); err != nil {
				err = badParams("not valid JSON: %v", err)
			}
		}
		if err != nil || s < 0 {
			return -1, -1, err
		}
		start, end = s, e
	}
	return start, end, nil
}

// nothingElse returns an error if more than blanks follows at.
func nothingElse(raw json.RawMessage, at int) error {
	if at = skipSpace(raw, at); at != len(raw) {
		return fault(raw, at, strictjson.NotTheEnd)
	}
	return nil
}

// member finds the key want in the object at b[at]. It scans the whole object; after is
// the index behind it.
func member(b []byte, at int, want string) (start, end, after int, err error) {
	it, err := openObject(b, at, 0)
	if err != nil {
		return -1, -1, at, badParams("not valid JSON: %v", err)
	}
	var seen keySet
	start, end = -1, -1
	for it.next() {
		key, _ := unquote(it.key)
		if !seen.add(key) {
			return -1, -1, at, badParams("the key %s is there twice", shown(key))
		}
		if key == want {
			start, end = it.start, it.end
		} else if shadows(key, want) {
			return -1, -1, at, badParams("the key %s is another spelling of %q", shown(key), want)
		}
	}
	if it.err != nil {
		return -1, -1, at, badParams("not valid JSON: %v", it.err)
	}
	return start, end, it.i, nil
}

// keySet is a set of the keys of one object: a list while they are few, then a map, so
// that a hostile object does not cost quadratic time.
type keySet struct {
	few  [16]string
	n    int
	many map[string]struct{}
}

func (s *keySet) add(key string) bool {
	for _, k := range s.few[:s.n] {
		if k == key {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = key
		s.n++
		return true
	}
	if s.many == nil {
		s.many = map[string]struct{}{}
	}
	if _, ok := s.many[key]; ok {
		return false
	}
	s.many[key] = struct{}{}
	return true
}

func badParams(format string, args ...any) error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func dotted(path []string) string {
	if len(path) == 0 {
		return "params"
	}
	return strings.Join(path, ".")
}
