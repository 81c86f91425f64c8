package strictyaml

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

type part struct {
	Text string `json:"text,omitempty"`
	Port *int32 `json:"port"`
}

type embedded struct {
	Inner string `json:"inner"`
}

type config struct {
	embedded
	Name   string              `json:"name"`
	On     bool                `json:"on"`
	Rate   float64             `json:"rate"`
	Wait   duration            `json:"wait"`
	Parts  []part              `json:"parts"`
	Part   *part               `json:"part"`
	Claims map[string][]string `json:"claims"`
	Any    any                 `json:"any"`
}

func TestDecode(t *testing.T) {
	var got config
	err := Decode([]byte("name: 007\non: yes\ninner: x\nrate: 1\nwait: 90s\nparts:\n  - {text: a, port: 0x10}\n  - text: |\n      b\n      c\npart:\nclaims: {g: [a, 1]}\nany: {k: [1, null, t]}\n"), &got)
	if err == nil || err.Error() != `line 2: on: it must be true or false, not "yes"` {
		t.Fatal(err)
	}
	port := int32(16)
	want := config{
		embedded: embedded{"x"}, Name: "007", On: true, Rate: 1, Wait: duration(90 * time.Second),
		Parts: []part{{Text: "a", Port: &port}, {Text: "b\nc\n"}}, Claims: map[string][]string{"g": {"a", "1"}},
		Any: map[string]any{"k": []any{1.0, nil, "t"}},
	}
	err = Decode([]byte("name: 007\non: true\ninner: x\nrate: 1\nwait: 90s\nparts:\n  - {text: a, port: 0x10}\n  - text: |\n      b\n      c\npart:\nclaims: {g: [a, 1]}\nany: {k: [1, null, t]}\n"), &got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{}, embedded{})); diff != "" {
		t.Error(diff)
	}
	kept := config{Name: "default"}
	for _, empty := range []string{"", "# nothing\n", "---\n...\n", "null\n"} {
		if err := Decode([]byte(empty), &kept); err != nil || kept.Name != "default" {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestDecode_Faults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown, near":     {"nam: a\n", `line 1: nam: there is no such setting; did you mean "name"?`},
		"unknown, far":      {"part:\n  zzzzzz: 1\n", "line 2: part.zzzzzz: there is no such setting; there are: text, port"},
		"another case":      {"Name: a\n", `line 1: Name: there is no such setting; did you mean "name"?`},
		"twice":             {"name: a\non: true\nname: b\n", "line 3: name: is there already, in line 1"},
		"a list for a text": {"name: [a]\n", "line 1: name: it must be a text"},
		"a text for a list": {"parts: a\n", `line 1: parts: it must be a list, not "a"`},
		"in a list":         {"parts:\n  - text: a\n  - port: b\n", `line 3: parts[1].port: it must be a whole number of 32 bits, not "b"`},
		"too large":         {"part: {port: 99999999999}\n", `line 1: part.port: it must be a whole number of 32 bits, not "99999999999"`},
		"not a JSON number": {"rate: .nan\n", `line 1: rate: it must be a number, not ".nan"`},
		"its own type":      {"wait: soon\n", `line 1: wait: time: invalid duration "soon"`},
		"alias":             {"part: &a {text: b}\nparts: [*a]\n", "line 2: parts[0]: an alias (*name) is not understood here"},
		"merge":             {"part: &a {text: b}\nany: {<<: *a}\n", "line 2: any.<<: an alias (*name) is not understood here"},
		"second document":   {"name: a\n---\nname: b\n", "line 3: there is a second document"},
		"not a mapping":     {"- a\n", `line 1: it is not a list of settings such as "name: value"`},
		"syntax":            {"name: [a\n", "line "},
		"all at once":       {"nam: a\npart: 3\n", "line 1: nam: there is no such setting; did you mean \"name\"?\nline 2: part: it must be a section with settings, not \"3\""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Decode([]byte(c.text), &config{})
			if err == nil || err.Error() != c.want && (c.want != "line " || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	docs, err := Documents([]byte("name: a\n---\n---\nname: b\n"))
	if err != nil || len(docs) != 2 || docs[1].Line() != 4 {
		t.Fatalf("%v, %v", docs, err)
	}
	var c config
	if err := docs[1].Decode(&c); err != nil || c.Name != "b" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Documents([]byte(strings.Repeat("a: 1\n---\n", maxDocuments+2))); err == nil {
		t.Error("any number of documents is accepted")
	}
}

// A document that is accepted is accepted again in the form in which it was understood.
func FuzzDecode(f *testing.F) {
	f.Add("name: a\nparts: [{text: b, port: 1}]\nany: {k: 1}\n")
	f.Add("part: &a {text: b}\nparts: [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		var c config
		if err := Decode([]byte(text), &c); err != nil {
			if strings.Count(err.Error(), "\n") > len(text) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var again config
		if err := Decode(fmt.Appendf(nil, "name: %q\non: %t\n", c.Name, c.On), &again); err != nil && strings.ToValidUTF8(c.Name, "") == c.Name && !strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
