package convert

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/internal/operator/admission"
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
			notes, err := Convert(strings.NewReader(in), &out, admission.Validate)
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
			if notes, err := Convert(strings.NewReader(in), &bytes.Buffer{}, admission.Validate); err == nil {
				t.Errorf("no error; notes %v", notes)
			}
		})
	}
}

// Every field that ToolHive's users have is written with its value, or a note names it.
func TestEveryFieldIsConvertedOrReported(t *testing.T) {
	table, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	converted, reported := 0, 0
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var kind, path, is string
		if n := len(strings.Fields(line)); n != 3 {
			t.Fatalf("%q", line)
		}
		kind, path, is = strings.Fields(line)[0], strings.Fields(line)[1], strings.Fields(line)[2]
		spec := withField(path, example(t, path, is)).(map[string]any)
		in, err := json.Marshal(map[string]any{
			"apiVersion": "toolhive.stacklok.dev/v1beta1", "kind": kind, "metadata": map[string]any{"name": "a"}, "spec": spec["spec"],
		})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		notes, err := Convert(bytes.NewReader(in), &out, admission.Validate)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if cmp.Equal(spec["spec"], got["spec"]) {
			converted++
			continue
		}
		named := false
		for _, n := range notes {
			// A note may name the structure that the field is in.
			left, ok := strings.CutPrefix(n.Message, "left out: ")
			left, _, _ = strings.Cut(left, " ")
			left = strings.TrimSuffix(strings.NewReplacer("[0]", "[]", ".KEY", "{}").Replace(left), ":")
			named = named || ok && strings.HasPrefix(path+".", strings.TrimSuffix(left, "[]")+".") || ok && strings.HasPrefix(path, left)
		}
		if !named {
			t.Errorf("%s is neither converted nor reported: %v, notes %v", path, got["spec"], notes)
		}
		reported++
	}
	t.Logf("%d fields converted, %d reported", converted, reported)
}

// example is a value of a type that states something.
func example(t *testing.T, path, is string) any {
	t.Helper()
	switch is {
	case "string":
		return "1m"
	case "boolean":
		return true
	case "integer":
		return float64(1)
	case "[]string":
		return "1m" // the path has []
	case "map→string", "object", "object(raw)", "any(raw)", "[]object":
		return map[string]any{"a": "b"}
	}
	t.Fatalf("%s: type %s", path, is)
	return nil
}

// withField is a structure with one field.
func withField(path string, value any) any {
	switch {
	case path == "":
		return value
	case strings.HasPrefix(path, "[]"):
		return []any{withField(path[2:], value)}
	case strings.HasPrefix(path, "{}"):
		return map[string]any{"KEY": withField(path[2:], value)}
	}
	name := strings.TrimPrefix(path, ".")
	end := strings.IndexAny(name, ".[{")
	if end < 0 {
		end = len(name)
	}
	return map[string]any{name[:end]: withField(name[end:], value)}
}
