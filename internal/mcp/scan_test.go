package mcp

import (
	"strings"
	"testing"
)

// The error for a message that is not JSON.
func TestParse_SyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "it ends too early at byte 0",
		`{`:                                 "it ends too early at byte 1",
		`{"a"`:                              "it ends too early at byte 4",
		`{"a":`:                             "it ends too early at byte 5",
		`{"a":1`:                            "it ends too early at byte 6",
		`{"a":1,`:                           "it ends too early at byte 7",
		`{"a":[`:                            "it ends too early at byte 6",
		`{"a":[1,`:                          "it ends too early at byte 8",
		`{"a":"b`:                           "it ends too early at byte 7",
		`{"a":"\`:                           "it ends too early at byte 7",
		`{1:2}`:                             "a member needs a name in quotes at byte 1",
		`{"a" 1}`:                           "a colon must follow the name of a member at byte 5",
		`{"a":1 "b":2}`:                     "a comma or } must follow a member at byte 7",
		`{"a":[1 2]}`:                       "a comma or ] must follow a value at byte 8",
		`{"a":tru}`:                         "there is no value where one must be at byte 5",
		`{"a":,}`:                           "there is no value where one must be at byte 5",
		`{"a":-}`:                           "a number has no digits at byte 6",
		`{"a":1.}`:                          "a number has no digits after its point at byte 7",
		`{"a":1e}`:                          "a number has no digits after its e at byte 7",
		"{\"a\":\"\n\"}":                    "a text holds a control character that is not escaped at byte 6",
		`{"a":"\x"}`:                        "a text holds an escape that there is not at byte 7",
		`{"a":"\u12"}`:                      `a text holds a \u without four digits at byte 7`,
		`{"a":1} x`:                         "something follows the end of it at byte 8",
		`[1] x`:                             "something follows the end of it at byte 4",
		`[1,`:                               "it ends too early at byte 3",
		`{"a":` + strings.Repeat("[", 9999): "it is nested too deeply at byte 516",
	} {
		_, err := Parse([]byte(text))
		if want = "the message is not valid JSON: " + want; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
}

// A value that is inserted into another text has no blanks around it.
func TestSkipValue(t *testing.T) {
	for _, text := range []string{" 1", "\n{}", "\t\"a\"", "\x001", ""} {
		if end, err := skipValue([]byte(text), 0, 0); err == nil {
			t.Errorf("%q was accepted as a value up to %d", text, end)
		}
	}
	if end, err := skipValue([]byte("x [1] "), 2, 0); err != nil || end != 5 {
		t.Errorf("%d, %v", end, err)
	}
	if _, err := skipValue([]byte("[[1]]"), 0, MaxDepth-1); err == nil {
		t.Error("the depth around a value was not counted")
	}
}
