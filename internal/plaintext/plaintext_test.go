package plaintext

import (
	"io"
	"strings"
	"testing"
)

// Texts with control functions of ECMA-48, and what remains of them.
var plainTexts = []struct{ what, in, want string }{
	{"text", "grün\tund 日本\n", "grün\tund 日本\n"},
	{"a colour", "\x1b[32mgrün\x1b[0m.", "grün."},
	{"a colour with parts", "\x1b[38;5;196;1mx\x1b[m", "x"},
	{"a cursor that moves", "a\x1b[2J\x1b[10;20Hb\x1b[?25l", "ab"},
	{"a colour by a single character", "\u009b31mx\u009b0m", "x"},
	{"a title", "\x1b]0;owned\x07x", "x"},
	{"a title in other scripts", "\x1b]0;日本語\x07x", "x"},
	{"a title that ends otherwise", "\x1b]0;owned\x1b\\x", "x"},
	{"a link", "\x1b]8;;http://evil.example\x1b\\text\x1b]8;;\x1b\\", "text"},
	{"a device's string", "\x1bPq#0;2;0\x1b\\x\u0090a\u009cy", "xy"},
	{"a character set", "\x1b(Bx\x1b7y", "xy"},
	{"a sequence that was called off", "\x1b[31\x18x", "x"},
	{"one that breaks off another", "\x1b[3\x1b[1mx\x1b]0;t\x1b[1my", "[3x]0;ty"},
	{"a string without an end", "\x1b]0;is text\nnext", "]0;is text\nnext"},
	{"a sequence without an end", "\x1b[31", "[31"},
	{"a sequence that is too long", "\x1b]" + strings.Repeat("x", 2*maxSequence), "]" + strings.Repeat("x", 2*maxSequence)},
	{"no sequence", "\x1bé\x1b\n", "é\n"},
	{"other control characters", "a\rb\x00c\u0085d\x7f", "abcd"},
	{"another order", "safe\u202etxt.\u2066exe\u2069 שלום\u200f", "safetxt.exe שלום\u200f"},
	{"what is not UTF-8", "a\xffb", "a\ufffdb"},
}

func TestLines(t *testing.T) {
	for _, c := range plainTexts {
		if got := Lines(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestWriter_AnyChunks(t *testing.T) {
	for _, c := range plainTexts {
		for size := 1; size < 8; size++ {
			var out strings.Builder
			w := NewWriter(&out)
			for in := c.in; in != ""; in = in[min(size, len(in)):] {
				if _, err := io.WriteString(w, in[:min(size, len(in))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != c.want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", c.what, size, got, c.want)
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, c := range plainTexts {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Lines(s) {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
				t.Errorf("%q has %q", s, r)
			}
		}
	})
}

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		what, in string
		limit    int
		want     string
	}{
		{"short", "a b", 3, "a b"},
		{"white space", " a\n\tb\r\nc ", 9, "a b c"},
		{"cut by characters", "grün 日本語", 6, "grün 日…"},
		{"a sequence does not count", "\x1b[31mabc\x1b[0m", 3, "abc"},
		{"invisible characters", "a\u200b\u200fb\u00ad", 9, "ab"},
		{"joined emoji", "👩\u200d💻", 9, "👩\u200d💻"},
		{"not UTF-8", "a\xff", 9, "a\ufffd"},
		{"very long", strings.Repeat("x", 1<<20), 2, "xx…"},
	} {
		if got := Excerpt(c.in, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
