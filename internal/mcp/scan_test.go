package mcp

import (
	"strings"
	"testing"
)

// What a client is told of a message that is no JSON.
func TestWhereAMessageStopsBeingJSON(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "expected { at byte 0",
		`{`:                                 "unexpected end at byte 1",
		`{"a"`:                              "expected a colon at byte 4",
		`{"a":`:                             "unexpected end at byte 5",
		`{"a":1`:                            "unexpected end at byte 6",
		`{"a":1,`:                           "expected a key at byte 7",
		`{"a":[`:                            "unexpected end at byte 6",
		`{"a":[1,`:                          "unexpected end at byte 8",
		`{"a":"b`:                           "unexpected end at byte 7",
		`{"a":"\`:                           "unexpected end at byte 7",
		`{1:2}`:                             "expected a key at byte 1",
		`{"a" 1}`:                           "expected a colon at byte 5",
		`{"a":1 "b":2}`:                     "expected a comma at byte 7",
		`{"a":[1 2]}`:                       "expected a comma at byte 8",
		`{"a":tru}`:                         "unexpected character at byte 5",
		`{"a":,}`:                           "unexpected character at byte 5",
		`{"a":-}`:                           "expected a digit at byte 6",
		`{"a":1.}`:                          "expected a digit at byte 7",
		`{"a":1e}`:                          "expected a digit at byte 7",
		"{\"a\":\"\n\"}":                    "control character in a string at byte 6",
		`{"a":"\x"}`:                        "bad escape in a string at byte 7",
		`{"a":"\u12"}`:                      "bad escape in a string at byte 7",
		`{"a":1} x`:                         "text after the message at byte 8",
		`[1] x`:                             "text after the message at byte 4",
		`[1,`:                               "unexpected end at byte 3",
		`{"a":` + strings.Repeat("[", 9999): "nesting deeper than 512 at byte 516",
	} {
		_, err := Parse([]byte(text))
		if want = "the message is not valid JSON: " + want; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
}

// A value that is put into another text has no blanks around it: nobody asked for
// the bytes around a value.
func TestAValueBeginsWithItself(t *testing.T) {
	for _, text := range []string{" 1", "\n{}", "\t\"a\"", "\x001", ""} {
		if end, err := skipValue([]byte(text), 0, 0); err == nil {
			t.Errorf("%q is a value up to %d", text, end)
		}
	}
	if end, err := skipValue([]byte("x [1] "), 2, 0); err != nil || end != 5 {
		t.Errorf("%d, %v", end, err)
	}
	if _, err := skipValue([]byte("[[1]]"), 0, MaxDepth-1); err == nil {
		t.Error("what is around a value does not count")
	}
}
