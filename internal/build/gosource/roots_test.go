package gosource

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/test/local"
)

func TestWhatACompilationReads(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		gowork string // "." is where the files are
		want   []string
	}{
		"a module": {map[string]string{"m/go.mod": "module m", "m/cmd/x/main.go": "", "other/go.mod": ""}, "", []string{"m"}},
		"directories it is replaced by": {map[string]string{
			"m/go.mod":        "module m\n// replace z => ../not\nreplace a => ../a // why\nreplace (\n\tb v1.2.3 => \"../b\"\n\tc => ./inside\n\td => example.com/../d v1.0.0\n)\n",
			"m/cmd/x/main.go": "", "a/go.mod": "module a\nreplace e => ../e", "b/go.mod": "", "e/go.mod": "", "not/go.mod": "", "m/inside/go.mod": "",
		}, "off", []string{"a", "b", "m"}},
		"a workspace": {map[string]string{
			"go.work": "go 1.26\nuse (\n\t./m\n\t./a\n)\nreplace q => ./q\n", "go.work.sum": "", "m/go.mod": "module m", "m/cmd/x/main.go": "",
			"a/go.mod": "module a\nreplace e => ../e", "e/go.mod": "", "q/go.mod": "", "not/go.mod": "",
		}, "", []string{"a", "e", "go.work", "go.work.sum", "m", "q"}},
		"a workspace that is off":  {map[string]string{"go.work": "use ./a", "m/go.mod": "module m", "m/cmd/x/main.go": "", "a/go.mod": ""}, "off", []string{"m"}},
		"a workspace of elsewhere": {map[string]string{"w/go.work": "use ../a\nuse ../m", "m/go.mod": "module m", "m/cmd/x/main.go": "", "a/go.mod": ""}, "w/go.work", []string{"a", "m", "w/go.work"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := local.Tree(t, c.files)
			gowork := c.gowork
			if strings.HasSuffix(gowork, "go.work") {
				gowork = filepath.Join(dir, gowork)
			}
			got, err := Roots(filepath.Join(dir, "m", "cmd", "x"), gowork)
			if err != nil {
				t.Fatal(err)
			}
			got = outermost(got)
			for i := range got {
				got[i] = filepath.ToSlash(strings.TrimPrefix(got[i], dir+string(filepath.Separator)))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := Roots(local.Tree(t, map[string]string{"x/main.go": ""}), "off"); err == nil || !strings.Contains(err.Error(), "not in a Go module") {
		t.Errorf("without a module: %v", err)
	}
}

func TestSourcesAreBounded(t *testing.T) {
	dir := local.Tree(t, map[string]string{"go.mod": "module m"})
	big, err := os.Create(filepath.Join(dir, "big.s"))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	if err := big.Truncate(maxSource + 1); err != nil { // a file with nothing in it
		t.Fatal(err)
	}
	err = Pack(io.Discard, []string{dir})
	if err == nil || !strings.Contains(err.Error(), "install Go here") {
		t.Errorf("%v", err)
	}
}
