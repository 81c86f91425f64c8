package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// stored puts workloads of remote servers into the app's store, none running.
func stored(t *testing.T, a *base.App, group string, names ...string) {
	t.Helper()
	store, err := a.Store()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if err := store.Create(&workload.Spec{
			Schema: workload.Schema, Name: name, Group: group, Source: workload.Source{Kind: "remote", Ref: "http://x/mcp"},
			Transport: workload.StreamableHTTP, Remote: &workload.Remote{URL: "http://x/mcp"},
			Proxy: workload.Proxy{Host: "127.0.0.1", Port: 20001 + i, Mode: "streamable-http"},
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, text string) (all []string) {
	t.Helper()
	var specs []workload.Spec
	if err := runflag.DecodeStrict([]byte(text), &specs); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, s := range specs {
		all = append(all, s.Name)
	}
	return all
}

func TestExport_Several(t *testing.T) {
	app := clitest.App(t)
	if got := clitest.Must(t, app, "export", "--all"); got != "[]\n" {
		t.Errorf("export of no workloads: %q", got)
	}
	store, err := app.Store()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateGroup("work"); err != nil {
		t.Fatal(err)
	}
	stored(t, app, "default", "a", "b")
	stored(t, app, "work", "c")
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"--all"}, []string{"a", "b", "c"}},
		{[]string{"--group", "work"}, []string{"c"}},
		{[]string{"--group", "work", "-o", "json"}, []string{"c"}},
	} {
		if got := names(t, clitest.Must(t, app, append([]string{"export"}, c.args...)...)); !cmp.Equal(got, c.want) {
			t.Errorf("export %v: %v, want %v", c.args, got, c.want)
		}
	}
	// One that is not there: the others are written all the same.
	stdout, stderr, code := clitest.Run(t, app, "export", "a", "nobody", "c")
	if code != base.ExitFailure || !strings.Contains(stderr, `"nobody"`) || !cmp.Equal(names(t, stdout), []string{"a", "c"}) {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}

	dir := filepath.Join(t.TempDir(), "new")
	var files []struct{ Name, File string }
	if err := json.Unmarshal([]byte(clitest.Must(t, app, "export", "--all", "-d", dir, "-o", "json")), &files); err != nil || len(files) != 3 || files[2].File != filepath.Join(dir, "c.json") {
		t.Errorf("as JSON: %+v, %v", files, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		content, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := store.Get(name)
		var got workload.Spec
		if err := runflag.DecodeStrict(content, &got); err != nil || !cmp.Equal(&got, want) {
			t.Errorf("%s is read back as %+v, %v", name, got, err)
		}
	}
}

func TestExport_KeepsFiles(t *testing.T) {
	app := clitest.App(t)
	stored(t, app, "default", "a", "b")
	dir := t.TempDir()
	kept := filepath.Join(dir, "a.json")
	if err := os.WriteFile(kept, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"export", "a", kept}, {"export", "--all", "-d", dir}} {
		_, stderr, code := clitest.Run(t, app, args...)
		if b, _ := os.ReadFile(kept); code != base.ExitFailure || !strings.Contains(stderr, kept+" is there already; --force") || string(b) != "mine" {
			t.Errorf("%v: exit code %d, %s, the file holds %q", args, code, stderr, b)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "b.json")); err != nil {
		t.Errorf("the other was not written: %v", err)
	}
	clitest.Must(t, app, "export", "--all", "-d", dir, "--force")
	if b, _ := os.ReadFile(kept); !strings.Contains(string(b), `"name": "a"`) {
		t.Errorf("--force wrote %q", b)
	}
	if _, stderr, code := clitest.Run(t, app, "export", "a", dir+"/"); code != base.ExitFailure || !strings.Contains(stderr, "--output-dir") {
		t.Errorf("to a directory: exit code %d, %s", code, stderr)
	}
}

func TestExport_FileOrName(t *testing.T) {
	app := clitest.App(t)
	stored(t, app, "default", "a", "b.json")
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want string // the file that is written, or ""
		says string // part of the error without a file
	}{
		{"a out.json", "out.json", ""},
		{"a ./out", "out", ""},
		{"a new/out", "new/out", ""},
		{"b.json -d .", "b.json.json", ""},
		{"a out", "", `no such workload: "out"`},
		{"a b c.json", "", "c.json would hold one workload; use --output-dir"},
		{"--all c.json", "", "c.json would hold one workload; use --output-dir"},
		{"--all a", "", "exclude each other"},
		{"a --force", "", "--force goes with"},
		{"a --output-dir=", "", "--output-dir is empty"},
		{"a -o table", "", "JSON only"},
	} {
		_, stderr, code := clitest.Run(t, app, append([]string{"export"}, strings.Fields(c.args)...)...)
		if (code == base.ExitOK) != (c.want != "") || !strings.Contains(stderr, c.says) {
			t.Errorf("export %s: exit code %d, %s", c.args, code, stderr)
		}
		if c.want == "" {
			continue
		}
		if _, err := os.Stat(c.want); err != nil {
			t.Errorf("export %s: %v", c.args, err)
		}
	}
	if got := strings.Fields(clitest.Must(t, app, "__complete", "export", "a", "")); !slices.Contains(got, "b.json") || !slices.Contains(got, ":0") {
		t.Errorf("completion: %v", got)
	}
}
