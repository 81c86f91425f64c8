package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// object is raw as encoding/json reads it.
func object(raw []byte) (m map[string]any, ok bool) {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	return m, dec.Decode(&m) == nil && m != nil && json.Valid(raw)
}

// What Set, Insert, Without and Members make of an object is what encoding/json
// would: the one member is changed, and nothing else.
func FuzzEdits(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[2]}`), "a", []byte(`"x"`))
	f.Add([]byte(`{ "_meta" : null }`), "_meta", []byte(`{}`))
	f.Add([]byte(`{"\u0061":1,"A":2}`), "a", []byte(`1e5`))
	f.Fuzz(func(t *testing.T, raw []byte, key string, value []byte) {
		if !utf8.Valid(raw) || !utf8.ValidString(key) {
			return // Parse refuses such a text, and callers name their keys themselves
		}
		was, readable := object(raw)
		got, err := Set(raw, value, key)
		if err == nil && len(raw) > 0 {
			if !readable {
				t.Fatalf("Set takes %q, which is no object", raw)
			}
			want, _ := object(raw)
			var v any
			dec := json.NewDecoder(strings.NewReader(string(value)))
			dec.UseNumber()
			if dec.Decode(&v) != nil {
				t.Fatalf("Set takes the value %q", value)
			}
			want[key] = v
			now, ok := object(got)
			if diff := cmp.Diff(want, now); !ok || diff != "" {
				t.Fatalf("Set(%q, %q, %q) = %q: %s", raw, value, key, got, diff)
			}
		}
		rest, err := Without(raw, func(k string) bool { return k == key })
		if err == nil && readable {
			delete(was, key)
			now, ok := object(rest)
			if diff := cmp.Diff(was, now); !ok || diff != "" {
				t.Fatalf("Without(%q, %q) = %q: %s", raw, key, rest, diff)
			}
			// What is taken out is put back.
			if json.Valid(value) {
				name, _ := json.Marshal(key)
				back, err := Insert(rest, append(append(name, ':'), value...))
				if _, ok := object(back); err == nil && !ok {
					t.Fatalf("Insert into %q gives %q", rest, back)
				}
			}
		}
		members := map[string]any{}
		err = Members(raw, func(k string, v json.RawMessage) bool {
			var value any
			dec := json.NewDecoder(strings.NewReader(string(v)))
			dec.UseNumber()
			if dec.Decode(&value) != nil {
				t.Fatalf("Members of %q gives %q", raw, v)
			}
			members[k] = value
			return true
		})
		if err == nil && readable {
			want, _ := object(raw)
			if diff := cmp.Diff(want, members); diff != "" {
				t.Fatalf("Members of %q: %s", raw, diff)
			}
		}
	})
}
