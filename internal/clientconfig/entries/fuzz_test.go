package entries

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, "{\n}", `{"mcpServers":{"a":{}}}`, "{\n  \"mcpServers\": { // x\n    \"a\": {}, // y\n  },\n}\n",
		`{"mcpServers": {"demo": {"url": "x"}, "b": 1}}`, "\xef\xbb\xbf{\r\n\t\"a\": [1, {}] /* z */\r\n}", `{"mcpServers": null}`,
	} {
		f.Add([]byte(seed))
	}
	fuzz(f, object, Place{Format: JSON, Path: []string{"mcp", "servers"}})
}

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"", "# c\n", "a: 1\nextensions:\n  # x\n  a:\n    b: |\n      text\n\n  # y\n", "extensions: {}\r\nb: 1\r\n", "mcpServers:\n- name: a\n  x: 'y'\n# end\n",
		"mcpServers: []\n", "--- # x\nextensions: &a\n    demo: {url: x}\n...\n", "a: >-\n  x", "extensions:\n  demo:\n    url: x\n",
	} {
		f.Add([]byte(seed))
	}
	fuzz(f, mapping, listed)
}

func FuzzTOML(f *testing.F) {
	for _, seed := range []string{
		"", "# c\n", "a = 1\n\n[b] # x\nc = [\n  1,\n]\n", "[mcp_servers.a]\r\nurl = 'x'\r\n", "[[mcp_servers]]\nname = \"a\"\n[mcp_servers.env]\nx = 1\n",
		"mcp_servers = {}\n", "a = \"\"\"\n[mcp_servers.demo]\n\"\"\"\n", "[mcp_servers.demo]\nurl = \"x\"\n", "[mcp_servers]\n[ mcp_servers . \"a b\" ]",
	} {
		f.Add([]byte(seed))
	}
	fuzz(f, tables, arrays)
}

// fuzz checks that an edit changes what is ours and nothing else: an entry is inserted
// between bytes that stay, and the file is as before when it is removed again.
func fuzz(f *testing.F, places ...Place) {
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, p := range places {
			before, err := List(content, p)
			if err != nil {
				refused(t, err)
				continue
			}
			if _, exists := before["demo"]; exists {
				if got, err := Remove(content, p, "demo"); err != nil {
					refused(t, err)
				} else if !isPart(got, content, " {}", " []") {
					t.Fatalf("removing added something: %q gave %q", content, got)
				}
				continue
			}
			with, err := Put(content, p, "demo", demo, nil)
			if err != nil {
				refused(t, err)
				continue
			}
			if !isPart(content, with, " {}", "{}", "[]") {
				t.Fatalf("something of %q is missing in %q", content, with)
			}
			after, err := List(with, p)
			if err != nil {
				t.Fatal(err)
			}
			if after["demo"].String("url") != demo[0].Value {
				t.Fatalf("%q has no entry", with)
			}
			delete(after, "demo")
			if len(before) != len(after) || len(after) > 0 && !reflect.DeepEqual(before, after) {
				t.Fatalf("other entries changed: %q gave %q", content, with)
			}
			without, err := Remove(with, p, "demo")
			if err != nil {
				t.Fatalf("%q: %v", with, err)
			}
			switch {
			case len(before) > 0 && !bytes.Equal(withEnd(content), withEnd(without)):
				t.Fatalf("%q became %q", content, without)
			case !isPart(bytes.Join(bytes.Fields(content), nil), bytes.Join(bytes.Fields(without), nil), "{}", "[]"):
				t.Fatalf("something of %q is missing in %q", content, without)
			}
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrForm) {
		t.Fatal(err)
	}
}

// withEnd returns content with its last line ended: an entry after it needs that, and the
// end stays.
func withEnd(content []byte) []byte { return bytes.TrimRight(content, "\r\n") }

// isPart reports whether part is what remains of whole when some bytes are left out. One of
// the texts in but, an empty container, may be in part alone.
func isPart(part, whole []byte, but ...string) bool {
	for _, text := range append([]string{""}, but...) {
		for at := -1; ; {
			next := bytes.Index(part[at+1:], []byte(text))
			if text == "" {
				next = 0
			}
			if next < 0 {
				break
			}
			at += 1 + next
			rest := append(append([]byte{}, part[:at]...), part[at+len(text):]...)
			if isSubsequence(rest, whole) {
				return true
			}
			if text == "" {
				break
			}
		}
	}
	return false
}

func isSubsequence(part, whole []byte) bool {
	for _, c := range whole {
		if len(part) > 0 && part[0] == c {
			part = part[1:]
		}
	}
	return len(part) == 0
}
