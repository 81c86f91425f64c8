package serverjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The errors for such documents, and the lines they name.
func TestScan_FaultLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "line 1: it is not JSON: it ends too early",
		"\n{":                              "line 2: it is not JSON: it ends too early",
		"[\n1":                             "line 2: it is not JSON: it ends too early",
		"{\n\"a":                           "line 2: it is not JSON: it ends too early",
		"-":                                "line 1: it is not JSON: it ends too early",
		"{}\n\nx":                          "line 3: it is not JSON: something follows the end of it",
		"[\n1,\n]":                         "line 3: it is not JSON: there is no value where one must be",
		"[tru\n]":                          "line 1: it is not JSON: there is no value where one must be",
		"{\na:1}":                          "line 2: it is not JSON: a member needs a name in quotes",
		"{\"a\"\n1}":                       "line 2: it is not JSON: a colon must follow the name of a member",
		"{\"a\":1\n\"b\":2}":               "line 2: it is not JSON: a comma or } must follow a member",
		"[1\n2]":                           "line 2: it is not JSON: a comma or ] must follow a value",
		"[-x]":                             "line 1: it is not JSON: a number has no digits",
		"[1.]":                             "line 1: it is not JSON: a number has no digits after its point",
		"[1e+]":                            "line 1: it is not JSON: a number has no digits after its e",
		"[\"a\nb\"]":                       "line 1: it is not JSON: a text holds a control character that is not escaped",
		`"\x"`:                             "line 1: it is not JSON: a text holds an escape that there is not",
		"\n\"\\u12\"":                      `line 2: it is not JSON: a text holds a \u without four digits`,
		"{\n\"a\":\n\"\\u0000\"}":          "line 3: a text holds the character NUL",
		"\n[\"\\ud83d\"]":                  "line 2: a text holds half of a surrogate pair",
		"{\"a\":1,\n\"a\":2\n}\n":          `line 3: the member "a" is there twice`,
		"{\"b\":\n{\"a\":1,\"\\u0061\":2}": `line 2: the member "a" is there twice`,
		"[\n\"\xff\"]":                     "line 2: it is not UTF-8",
		"[[[\n[]]]]":                       "line 2: it is nested deeper than 2",
		"[[[\n1]]]":                        "line 2: it is nested deeper than 2",
		"[[{\"a\":\n1}]]":                  "line 2: it is nested deeper than 2",
		"[[[":                              "line 1: it is nested deeper than 2",
		"[[[]]]":                           "",
		"[[{}, 1], [[]], {\"a\" : [ ]}]":   "",
	} {
		got := ""
		if _, err := scan([]byte(text), 2); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	_, err := scan([]byte(`{"`+strings.Repeat("é", 200)+`":1,"`+strings.Repeat("é", 200)+`":1}`), 2)
	if want := `line 1: the member "` + strings.Repeat("é", 100) + `" is there twice`; err == nil || err.Error() != want {
		t.Errorf("a long name: %v", err)
	}
}

func TestScan_CompactMembers(t *testing.T) {
	text := []byte(" {\n \"a\" : [ 1 , \" \\\" \\\\\" ] ,\t\"\\u0062\\\" \" : { \"c\" : { } } , \"\" : null }\r\n")
	var want bytes.Buffer
	if err := json.Compact(&want, text); err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{text, want.Bytes()} {
		got, err := scan(text, maxDepth)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(got.compact)); diff != "" {
			t.Error(diff)
		}
		members := []member{{"a", json.RawMessage(`[1," \" \\"]`)}, {`b" `, json.RawMessage(`{"c":{}}`)}, {"", json.RawMessage("null")}}
		if diff := cmp.Diff(members, got.members, cmp.AllowUnexported(member{})); diff != "" {
			t.Error(diff)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(whole)); err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string][]byte{"as written": []byte(whole), "compact": compact.Bytes()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := scan(text, maxDepth); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
