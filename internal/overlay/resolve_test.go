package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustResolve(t *testing.T, mounts []Mount, global string) *Result {
	t.Helper()
	r, err := Resolve(t.Context(), mounts, global)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func paths(r *Result) (out []string) {
	for _, h := range r.Hidden {
		p := h.Path
		if h.Dir {
			p += "/"
		}
		out = append(out, p)
	}
	return out
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	global := filepath.Join(t.TempDir(), GlobalName)
	if err := os.WriteFile(global, []byte("# mine\n*.pem\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree(t, dir, map[string]string{
		FileName: ".env\nprivate/\n", ".env": "x", "sub/.env": "x", "private/a": "x", "key.pem": "x", "main.go": "x",
		"inner/private/b": "x", "other/file": "x",
	})
	got := mustResolve(t, []Mount{{dir, "/work"}, {filepath.Join(dir, "key.pem"), "/key.pem"}}, global)
	if diff := cmp.Diff([]string{"/work/.env", "/work/inner/private/", "/work/key.pem", "/work/private/", "/work/sub/.env"}, paths(got)); diff != "" {
		t.Error(diff)
	}
	if h := got.Hidden[0]; h.Host != filepath.Join(dir, ".env") || h.Rule != filepath.Join(dir, FileName)+":1: .env" {
		t.Errorf("%+v", h)
	}
	if diff := cmp.Diff([]string{global, filepath.Join(dir, FileName)}, got.Files); diff != "" {
		t.Error(diff)
	}
	if without := mustResolve(t, []Mount{{dir, "/work"}}, ""); slices.Contains(paths(without), "/work/key.pem") || !slices.Contains(without.Exposed, "/work/key.pem") {
		t.Errorf("%v, exposed %v", paths(without), without.Exposed)
	}
}

// A mount inside of a hidden directory stays visible, and all else in that is hidden.
func TestResolve_MountsInMounts(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	tree(t, dir, map[string]string{FileName: "private/\n", "private/a": "x", "private/data/old": "x", "private/more/b": "x", "data/.env": "x"})
	tree(t, other, map[string]string{"private/x": "x"})
	got := mustResolve(t, []Mount{{dir, "/work"}, {other, "/work/private/data"}}, "")
	if diff := cmp.Diff([]string{"/work/private/a", "/work/private/more/"}, paths(got)); diff != "" {
		t.Error(diff)
	}
}

// Nothing can be mounted over a link: what it leads to in a mount is hidden.
func TestResolve_Links(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	tree(t, dir, map[string]string{FileName: "*.link\n", "real/file": "x", "real/dir/a": "x"})
	tree(t, other, map[string]string{"deep/secret": "x"})
	for name, target := range map[string]string{
		"a.link": "real/file", "b.link": "/other/deep", "c.link": "/etc/passwd", "d.link": "../../../host", "e.link": "f.link", "f.link": "real/dir", "g.link": "g.link", "h.link": "missing",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	got := mustResolve(t, []Mount{{dir, "/work"}, {other, "/other"}}, "")
	if diff := cmp.Diff([]string{"/other/deep/", "/work/real/dir/", "/work/real/file"}, paths(got)); diff != "" {
		t.Error(diff)
	}
}

func TestResolve_Refusals(t *testing.T) {
	t.Parallel()
	many := map[string]string{FileName: "*.log\n"}
	for i := range maxHidden + 1 {
		many[fmt.Sprintf("%d.log", i)] = "x"
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"many lines":        {map[string]string{FileName: strings.Repeat("a\n", maxLines+1)}, "has more than 20000 lines"},
		"a large file":      {map[string]string{FileName: strings.Repeat("#", maxFile+1)}, "is larger than"},
		"a long line":       {map[string]string{FileName: strings.Repeat("a", maxPattern+1)}, "line 1 is longer than"},
		"no file":           {map[string]string{FileName + "/": ""}, "is not a file"},
		"many hidden paths": {many, "hide more than 1000 paths"},
	} {
		dir := t.TempDir()
		tree(t, dir, c.files)
		if _, err := Resolve(t.Context(), []Mount{{dir, "/m"}}, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := mustResolve(t, []Mount{{t.TempDir(), "/m"}}, "/no/such/file"); len(got.Hidden) > 0 {
		t.Errorf("%v", got.Hidden)
	}
}

// The time for one name is bounded by the product of the lengths, whatever the pattern.
func FuzzMatch(f *testing.F) {
	f.Add("**/a*b?[!c-d]/\\e", "x/ab/aabbe")
	f.Add("*a*a*a*a*a*a*a*b", strings.Repeat("a", 200))
	f.Add("[[:alpha:]-z]", "-")
	f.Fuzz(func(t *testing.T, line, name string) {
		p, ok := parseLine(line)
		if !ok || name == "" {
			return
		}
		path := strings.Split(name, "/")
		r := newRules("f", nil, []pattern{p})
		if got, want := r.match(path, true) != nil, p.matches(path); got != want {
			t.Errorf("%q at %q: the rules say %t, the pattern %t", line, name, got, want)
		}
	})
}

// A file of patterns is read or refused, and what is read is bounded.
func FuzzParse(f *testing.F) {
	f.Add([]byte("# c\n*.env\n!/a/\n\\#x\r\n"), "a/b.env")
	f.Add([]byte("\xef\xbb\xbf**/[!"), "x")
	f.Add([]byte(strings.Repeat("a*", 3000)), strings.Repeat("a", 200))
	f.Fuzz(func(t *testing.T, content []byte, name string) {
		patterns, err := parse("f", content)
		if err != nil {
			if patterns != nil || !strings.HasPrefix(err.Error(), "f") {
				t.Errorf("%d patterns, %v", len(patterns), err)
			}
			return
		}
		for i, p := range patterns {
			if len(p.segments) == 0 || i > 0 && p.line <= patterns[i-1].line {
				t.Errorf("%q: %+v", content, p)
			}
		}
		if name == "" {
			return
		}
		path := strings.Split(name, "/")
		var last *pattern // that matches decides
		for i := range patterns {
			if patterns[i].matches(path) {
				last = &patterns[i]
			}
		}
		if got := newRules("f", nil, patterns).match(path, true); (got == nil) != (last == nil) || got != nil && got.line != last.line {
			t.Errorf("%q at %q: the rules say %v, the patterns %v", content, name, got, last)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	dir := b.TempDir()
	files := map[string]string{}
	for i := range 20_000 {
		files[fmt.Sprintf("d%d/s%d/file%d.txt", i%50, i%7, i)] = ""
	}
	tree(b, dir, files)
	global := filepath.Join(b.TempDir(), GlobalName)
	var lines strings.Builder
	for i := range 250 {
		fmt.Fprintf(&lines, "name%d\n*.ext%d\n/d%d/none*%d\n**/sub%d/*.key\n", i, i, i, i, i)
	}
	if err := os.WriteFile(global, []byte(lines.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Resolve(b.Context(), []Mount{{dir, "/m"}}, global); err != nil {
			b.Fatal(err)
		}
	}
}
