package runflag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// DecodeStrict reads exactly one JSON document into v. An unknown key, a key
// twice, a wrong type and anything after the document are errors that name the
// line, and the nearest known key where one is close.
func DecodeStrict(content []byte, v any) error {
	if err := noDuplicates(content); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: there is something after the document", lineAt(content, dec.InputOffset()))
		}
		return nil
	}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: it is not valid JSON: %w", lineAt(content, syntax.Offset), err)
	case errors.As(err, &typ):
		return fmt.Errorf("line %d: %s must be of type %s, not %s", lineAt(content, typ.Offset), typ.Field, typ.Type, typ.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not valid JSON: it ends too early")
	}
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownKey(content, strings.Trim(key, `"`), keysOf(reflect.TypeOf(v), map[reflect.Type]bool{}))
	}
	return err
}

// unknownKey is the error for a key that is not among known.
func unknownKey(content []byte, key string, known []string) error {
	return fmt.Errorf("line %d: unknown key %q%s", lineOf(content, key), key, settings.Suggest(key, known))
}

func lineAt(content []byte, offset int64) int {
	return 1 + bytes.Count(content[:min(int(offset), len(content))], []byte("\n"))
}

// lineOf is the line of the first appearance of a key.
func lineOf(content []byte, key string) int {
	quoted, _ := json.Marshal(key)
	i := bytes.Index(content, quoted)
	return lineAt(content, int64(max(0, i)))
}

// noDuplicates refuses an object with one key twice: readers disagree about
// which counts.
func noDuplicates(content []byte) error {
	dec := json.NewDecoder(bytes.NewReader(content))
	type frame struct {
		keys map[string]bool // nil in an array
		key  bool            // the next token is a key
	}
	var stack []frame
	for {
		token, err := dec.Token()
		if err != nil {
			return nil //nolint:nilerr // the decoder proper reports it better
		}
		top := len(stack) - 1
		if d, ok := token.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:top]
			if top--; top >= 0 {
				stack[top].key = stack[top].keys != nil
			}
			continue
		}
		if top >= 0 && stack[top].key {
			key := token.(string)
			if stack[top].keys[key] {
				return fmt.Errorf("line %d: the key %q is there twice", lineAt(content, dec.InputOffset()), key)
			}
			stack[top].keys[key], stack[top].key = true, false
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, frame{keys: map[string]bool{}, key: true})
		case json.Delim('['):
			stack = append(stack, frame{})
		default:
			if top >= 0 {
				stack[top].key = stack[top].keys != nil
			}
		}
	}
}

// keysOf lists the JSON keys of a type and of the types in it.
func keysOf(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			keys = append(keys, name)
		}
		keys = append(keys, keysOf(f.Type, seen)...)
	}
	return keys
}
