package mcp

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonical(t *testing.T) {
	for raw, want := range map[string]string{
		``:                                `{}`,
		`{ "b": [1, 1.0], "a": {} }`:      `{"a":{},"b":[1,1.0]}`,
		`{"\u0061":"\u00e9"}`:             `{"a":"é"}`,
		`{"a":12345678901234567890123}`:   `{"a":12345678901234567890123}`,
		`{"a":"\ud83d\ude00","A":[null]}`: `{"A":[null],"a":"😀"}`,
	} {
		got, err := Canonical(json.RawMessage(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
	// What readers disagree about.
	for _, raw := range []string{
		`{"a":1,"a":1}`, `{"x":[{"a":1,"\u0061":2}]}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}",
		`[]`, `null`, `1`, `{`, `{}{}`,
	} {
		if got, err := Canonical(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: got %s", raw, got)
		}
	}
}
