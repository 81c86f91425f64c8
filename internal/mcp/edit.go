package mcp

import "encoding/json"

// Set returns raw with the value at path replaced by value, or inserted. Objects on the
// path that are missing or null are created. All other bytes stay as they are, and raw
// itself is not changed. The errors are those of [Lookup], and one for a value that is not
// JSON. An absent (empty) raw is an empty object.
func Set(raw, value json.RawMessage, path ...string) (json.RawMessage, error) {
	for n := range path {
		_, found, err := Lookup(raw, path[:n+1]...)
		if err != nil {
			return nil, err
		}
		if found {
			continue
		}
		// The rest of the path is missing: it is inserted as one value.
		for i := len(path) - 1; i > n; i-- {
			wrapped := append([]byte{'{'}, appendQuoted(nil, path[i])...)
			wrapped = append(append(wrapped, ':'), value...)
			value = append(wrapped, '}')
		}
		return insert(raw, value, path[:n+1])
	}
	return Replace(raw, value, path...)
}

// insert adds the last key of path to the object at the keys before it. That object may
// be null or absent. It must not have the key.
func insert(raw, value json.RawMessage, path []string) (json.RawMessage, error) {
	parent, key := path[:len(path)-1], path[len(path)-1]
	if end, err := skipValue(value, 0, 0); err != nil || end != len(value) {
		return nil, badParams("the new value of %s is not valid JSON", dotted(path))
	}
	return Insert(raw, append(append(appendQuoted(nil, key), ':'), value...), parent...)
}

// Insert returns raw with members added to the object at path, before those it has. The
// object must have none of their names; it is created if it is missing or null, but its
// parent must exist. members is one or more `"key":value` with commas between them, and is
// not checked.
func Insert(raw, members []byte, path ...string) (json.RawMessage, error) {
	object, found, err := Lookup(raw, path...)
	if err != nil {
		return nil, err
	}
	out := make(json.RawMessage, 0, len(object)+len(members)+2)
	out = append(append(out, '{'), members...)
	switch {
	case !found && len(raw) > 0 && len(path) > 0:
		out = append(out, '}')
		return insert(raw, out, path)
	case len(object) > 0 && object[0] != '{' && object[0] != 'n':
		return nil, badParams("%s must be an object", dotted(path))
	case len(object) > 0 && object[0] == '{' && object[skipSpace(object, 1)] != '}':
		out = append(append(out, ','), object[1:]...)
	default:
		out = append(out, '}')
	}
	if len(path) == 0 {
		return out, nil
	}
	if len(raw) == 0 {
		return insert(nil, out, path)
	}
	return Replace(raw, out, path...)
}

// Without returns raw without the members of the object at path for which drop returns
// true. All other bytes stay as they are, and raw itself is not changed. The errors are
// those of [Lookup]. Without such an object it returns raw.
func Without(raw json.RawMessage, drop func(key string) bool, path ...string) (json.RawMessage, error) {
	object, found, err := Lookup(raw, path...)
	if err != nil || !found || object[0] != '{' {
		return raw, err
	}
	it, err := openObject(object, 0, 0)
	if err != nil {
		return nil, badParams("not valid JSON: %v", err)
	}
	out := append(make(json.RawMessage, 0, len(object)), '{')
	dropped := false
	for it.next() {
		if key, _ := unquote(it.key); drop(key) {
			dropped = true
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, it.key...), ':'), it.value...)
	}
	if it.err != nil {
		return nil, badParams("not valid JSON: %v", it.err)
	}
	if !dropped {
		return raw, nil
	}
	out = append(out, '}')
	if len(path) == 0 {
		return out, nil
	}
	return Replace(raw, out, path...)
}

// Members calls each for the members of the object raw, in their order, until it returns
// false. The errors are those of [Lookup], and are returned before the first call. An
// absent raw has no members.
func Members(raw json.RawMessage, each func(key string, value json.RawMessage) bool) error {
	if len(raw) == 0 {
		return nil
	}
	start := skipSpace(raw, 0)
	if _, _, err := locate(raw, []string{""}); err != nil {
		return err
	}
	it, err := openObject(raw, start, 0)
	if err != nil {
		return badParams("not valid JSON: %v", err)
	}
	for it.next() {
		key, ok := unquote(it.key)
		if !ok {
			return badParams("a key holds half of a surrogate pair")
		}
		if !each(key, it.value) {
			return nil
		}
	}
	return nil
}
