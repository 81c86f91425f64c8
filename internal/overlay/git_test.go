package overlay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes files; a name that ends in a slash is a directory.
func tree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(full, 0o755)
		} else if err == nil {
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ignored are the paths of a directory that git ignores, without those inside of another.
func ignored(t testing.TB, dir string) []string {
	t.Helper()
	var all bytes.Buffer
	if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if rel == ".git" {
			return filepath.SkipDir
		}
		all.WriteString(filepath.ToSlash(rel) + "\x00")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "check-ignore", "-z", "--stdin", "--no-index")
	cmd.Dir, cmd.Stdin = dir, &all
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: nothing is ignored
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var paths []string
	for _, p := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if p != "" && !slices.ContainsFunc(paths, func(k string) bool { return strings.HasPrefix(p, k+"/") }) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// hidden are the paths that Resolve hides in a directory.
func hidden(t testing.TB, dir, global string) []string {
	t.Helper()
	got, err := Resolve(t.Context(), []Mount{{dir, "/m"}}, global)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, h := range got.Hidden {
		if p := strings.TrimPrefix(h.Path, "/m/"); p != ".git" && !strings.HasPrefix(p, ".git/") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

func needGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: the patterns are not compared with git's")
	}
}

// compare makes a repository with patterns, for git and for us, and compares what each
// ignores. patterns are by directory; "global" is the global file.
func compare(t *testing.T, files []string, patterns map[string]string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content := map[string]string{}
	for _, name := range files {
		content[name] = "x"
	}
	global := ""
	for in, text := range patterns {
		if in == "global" {
			content[".git/info/exclude"] = text
			global = filepath.Join(t.TempDir(), GlobalName)
			if err := os.WriteFile(global, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content[in+".gitignore"], content[in+FileName] = text, text
	}
	tree(t, dir, content)
	if want, got := ignored(t, dir), hidden(t, dir, global); !slices.Equal(want, got) {
		t.Errorf("patterns %q:\n git %q\nours %q", patterns, want, got)
	}
}

var someFiles = []string{
	"a", "b.env", "ab", "foo/a", "foo/b/a", "foo/bar/baz/a", "bar/foo/x", "x/y/z/foo/q", "build/out.o", "src/build/out.o", "src/main.c", "docs/build", "*", "q[r", "#hash", "!bang",
	"sp ", "tab\t", "A.ENV", "deep/.env", "deep/er/.env.local", "foo/b/c/d/e", "z-1", "z-a", "z-]", "back\\slash", "ü.txt", "empty/",
}

func TestAgainstGit(t *testing.T) {
	t.Parallel()
	needGit(t)
	for _, patterns := range []string{
		"a", "/a", "foo", "foo/", "/foo", "foo/*", "foo/**", "**/foo", "**/foo/", "foo/**/a", "**", "*", "/*", "*\n!a", "foo/*\n!foo/b/", "foo\n!foo/a", "build/", "/build/", "*.env", "*.env\n!deep/",
		"?", "??", "[ab]", "[!ab]", "[^ab]", "z-[0-9]", "z-[[:alpha:]]", "z-[]]", "z-[!]]", "z-[a", "[[:nope:]]", "\\*", "\\#hash", "#hash", "\\!bang", "!bang", "sp\\ ", "sp ", "sp", "a ", "back\\\\slash", "back\\slash", "a\\",
		".env*", "deep/**/.env*", "deep/*/.env.local", "x/**/q", "x/**/**/q", "x/*/q", "x/y/*/foo", "x/y/**/foo", "**/b/**", "**/b/**/e", "foo/b/**/e", "a/", "ab/..", "./a", "//a", "a//b", "/", "!", "!a", "*a*", "*a*b*", "ü*", "???.txt",
		"foo/b\n!foo/b/a\n", "*\n!*/\n!a\n", "\xef\xbb\xbfa", "a\r\nb.env\r\n", "q[r", "q\\[r", "**a", "f**", "foo/**a", "foo/b**", "**/", "foo/**/", "docs/build/", "docs/build", "x/y/", "[a-", "[]-a]b", "[\\]]", "z-[\\]]", "[--0]",
		"[!a/]*", "[a/b]b", "foo[/]a", "foo/[/a]", "foo/[!/]", "z-[/1]", "[/", "[a/\nfoo/a", "[[:alpha:]/]b", "[[:nope:]/]b", "\\[/]", "q[[/]r", "[\\]/]*", "foo/*/[a/]", "**/[q/]",
	} {
		compare(t, someFiles, map[string]string{"": patterns})
	}
}

func TestAgainstGit_SeveralFiles(t *testing.T) {
	t.Parallel()
	needGit(t)
	for _, patterns := range []map[string]string{
		{"": "*.env", "deep/": "!.env"},
		{"": "a", "foo/": "!a", "foo/b/": "a"},
		{"": "!b.env", "global": "*.env"},
		{"global": "foo/\n", "foo/": "!a"},
		{"foo/": "/b/\n/bar/baz/a"},
		{"x/y/": "z/foo\n!q"},
		{"": "build", "src/": "!build/"},
	} {
		compare(t, someFiles, patterns)
	}
}

// Random patterns and paths of few letters meet the odd corners.
func TestAgainstGit_Random(t *testing.T) {
	t.Parallel()
	needGit(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	word := func(letters string, n int) string {
		var b strings.Builder
		for range 1 + r.IntN(n) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	for i := range 20 {
		var files []string
		for range 30 {
			parts := make([]string, 1+r.IntN(4))
			for i := range parts {
				parts[i] = word("ab-]", 2)
			}
			parts[0] = fmt.Sprintf("%s%d", parts[0], r.IntN(3)) // a file is no directory of another
			files = append(files, strings.Join(parts, "/")+fmt.Sprintf(".%d", len(parts)))
		}
		var patterns []string
		for range 6 {
			patterns = append(patterns, strings.TrimRight(word("aab**?[]!-/\\.0123", 7), `\`))
		}
		t.Run(fmt.Sprintf("%d-%d", seed, i), func(t *testing.T) { compare(t, files, map[string]string{"": strings.Join(patterns, "\n")}) })
	}
}
