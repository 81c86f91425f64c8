package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Without rules the scanner takes what encoding/json takes, but for nesting. What
// it takes with rules it reads as encoding/json does, as it does again without
// blanks. Passing a text and reading it value by value find the same.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		sample, `[[[[[[[[[]]]]]]]]]`, `{"a":1,"\u0061":2}`, `[1,-0.1e+5, "\ud83d\ude00\u0000",tru]`, " { \"\xff\" : [ ] }\n", `"\ud800"`, `{"":{},"\n":null}`,
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(strict))
	}
	f.Fuzz(func(t *testing.T, text []byte, r uint8) {
		rules := Rules(r) & strict
		err := check(text, rules)
		got, again := read(text, rules)
		if diff := cmp.Diff(err, again); diff != "" {
			t.Fatalf("passed and read: %s", diff)
		}
		if check(text, strict&^UniqueNames) == nil {
			var fault *Fault
			if err := check(text, strict); isTwice(text) != (errors.As(err, &fault) && fault.Problem == NameTwice) {
				t.Fatalf("%q: %v", text, err)
			}
		}
		var fault *Fault
		if errors.As(err, &fault) {
			if fault.Offset < 0 || fault.Offset > len(text) || fault.AtEnd != (fault.Offset == len(text)) || fault.Problem.String() == "" {
				t.Fatalf("%+v", fault)
			}
			isRule := fault.Problem >= TooDeep
			if !isRule && json.Valid(text) {
				t.Fatalf("%q is JSON: %v", text, err)
			}
			if rules == 0 && isRule && fault.Problem != TooDeep {
				t.Fatalf("%v, without rules", err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want, loose any
		if err := json.Unmarshal(text, &loose); err != nil && json.Valid(text) {
			// Numbers that no float64 holds (RFC 8259 section 6) are JSON.
			if number := new(json.UnmarshalTypeError); !errors.As(err, &number) {
				t.Fatalf("%q is accepted here alone: %v", text, err)
			}
		} else if err != nil {
			t.Fatalf("%q is accepted here alone: %v", text, err)
		}
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%q is accepted here alone: %v", text, err)
		}
		if utf8.Valid(text) { // encoding/json mends it, we leave it as it is
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("encoding/json reads %q otherwise: %s", text, diff)
			}
		} else if rules&UTF8 != 0 {
			t.Fatalf("%q is accepted", text)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, text); err != nil {
			t.Fatal(err)
		}
		same, err := read(compact.Bytes(), rules)
		if diff := cmp.Diff(got, same); err != nil || diff != "" {
			t.Fatalf("without blanks: %v %s", err, diff)
		}
		s := New(text, room, rules)
		s.Value()
		_ = s.End()
		if s.At()-s.Blanks() != compact.Len() {
			t.Fatalf("%d blanks in %q", s.Blanks(), text)
		}
	})
}

// isTwice tells whether some object in a JSON text has two members of one name.
func isTwice(text []byte) bool {
	var objects []map[string]bool // nil for an array
	isName := false
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'):
			objects = append(objects, map[string]bool{})
		case json.Delim('['):
			objects = append(objects, nil)
		case json.Delim('}'), json.Delim(']'):
			objects = objects[:len(objects)-1]
		default:
			if name, ok := token.(string); ok && isName {
				if objects[len(objects)-1][name] {
					return true
				}
				objects[len(objects)-1][name] = true
				isName = false
				continue
			}
		}
		isName = len(objects) > 0 && objects[len(objects)-1] != nil
	}
}
