package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Names of docs/security.md: `isolate.txtar`, enginetest `limits`, `egress` `TestDNS`.
var (
	scriptName = regexp.MustCompile("`([a-z-]+\\.txtar)`")
	engineTest = regexp.MustCompile("enginetest `(\\w+)`")
	goTest     = regexp.MustCompile("`(Test\\w+)`")
)

// Each promise of docs/security.md, and each way out of a container, names tests that exist.
func TestSecurityPage_NamesItsTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t, root)
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "| shown by |") {
			continue
		}
		rows++
		named := 0
		for _, m := range scriptName.FindAllStringSubmatch(line, -1) {
			named++
			if _, err := os.Stat(filepath.Join(root, "test", "scenario", "testdata", m[1])); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
		}
		for _, m := range engineTest.FindAllStringSubmatch(line, -1) {
			named++
			if !tests["enginetest "+m[1]] {
				t.Errorf("enginetest has no %s", m[1])
			}
		}
		for _, m := range goTest.FindAllStringSubmatch(line, -1) {
			named++
			if !tests[m[1]] {
				t.Errorf("there is no %s", m[1])
			}
		}
		if named == 0 {
			t.Errorf("no test is named: %s", line)
		}
	}
	if rows < 30 {
		t.Errorf("the page has %d rows", rows)
	}
}

// testNames are the functions of tests, and the methods of the engines' suite.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	method := regexp.MustCompile(`(?m)^func \(s \*suite\) (\w+)\(`)
	names := map[string]bool{}
	collect := func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range function.FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
		}
		if filepath.Base(filepath.Dir(path)) == "enginetest" {
			for _, m := range method.FindAllSubmatch(text, -1) {
				names["enginetest "+string(m[1])] = true
			}
		}
		return nil
	}
	for _, dir := range []string{filepath.Join(root, "internal"), filepath.Join(root, "test", "scenario")} {
		if err := filepath.WalkDir(dir, collect); err != nil {
			t.Fatal(err)
		}
	}
	return names
}
