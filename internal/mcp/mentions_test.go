package mcp

import "testing"

func TestMentions(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"requestState":1}`:      true,
		`{"requestSt\u0061te":1}`: true,
		`{"requestSt\\\"te":1}`:   false,
		`{"a":"requestState"}`:    true,
		`{}`:                      false,
		``:                        false,
	} {
		if got := Mentions([]byte(raw), "requestState"); got != want {
			t.Errorf("%s: %t", raw, got)
		}
	}
	if !Mentions([]byte(`"a\/b"`), "a/b") || Mentions([]byte(`"a\/b"`), "ab") {
		t.Error("a slash may be escaped by itself")
	}
}
