package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each file of testdata ends in what Convert makes of it: after a line #OUT what is written,
// and after a line #NOTES the notes.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, rest, _ := strings.Cut(string(content), "#OUT\n")
			wantOut, wantNotes, _ := strings.Cut(rest, "#NOTES\n")
			var out bytes.Buffer
			notes, err := Convert(strings.NewReader(in), &out)
			if err != nil {
				t.Fatal(err)
			}
			var lines strings.Builder
			for _, n := range notes {
				lines.WriteString(n.String() + "\n")
			}
			if d := cmp.Diff(wantOut, out.String()); d != "" {
				t.Errorf("output (-want +got):\n%s", d)
			}
			if d := cmp.Diff(wantNotes, lines.String()); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"broken YAML":      "a: [",
		"no resource":      "- 1\n",
		"a repeated key":   "apiVersion: v1\napiVersion: v2\n",
		"a list of others": "apiVersion: v1\nkind: List\nitems: [1]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if notes, err := Convert(strings.NewReader(in), &bytes.Buffer{}); err == nil {
				t.Errorf("no error; notes %v", notes)
			}
		})
	}
}
