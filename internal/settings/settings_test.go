package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestDirectoriesFollowXDG(t *testing.T) {
	env := map[string]string{"HOME": "/home/jo", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "relative"}
	d, err := Locate(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	if d.State != "/s/thv" || !strings.Contains(d.Config, "jo") || !filepath.IsAbs(d.Runtime) {
		t.Errorf("got %+v", d)
	}
	if _, err := Locate(func(string) string { return "" }); err == nil {
		t.Error("no HOME was no error")
	}
}

func TestConfigurationIsStrict(t *testing.T) {
	d := Dirs{Config: t.TempDir()}
	for content, want := range map[string]string{
		"":                              "",
		"# nothing yet\n":               "",
		"---\n":                         "",
		"registry: https://r.example":   "",
		"registry: a\nregistri: b":      "line 2: there is no setting \"registri\"; did you mean registry?",
		"other: b":                      "there are: registry, caCert",
		"registry: [1]":                 "line 1",
		"\n- registry":                  "line 2: it is not a list of settings",
		"registry: a\nregistry: b":      "line 2",
		"registry: a\n---\nregistry: b": "line 2: there is more than one document",
		"registry: 'a":                  "line",
		"registry: *a":                  "a",
		strings.Repeat("#", 2<<20):      "larger than",
	} {
		if err := os.WriteFile(d.configFile(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(d)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80q: %v", content, err)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), d.configFile())) {
			t.Errorf("%.80q: %q is not one line that names the file", content, err)
		}
	}
}

func TestChangesAreCheckedAndKept(t *testing.T) {
	d := Dirs{Config: t.TempDir()}
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := Change(d, "caCert", file); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := Change(d, "registry", "https://r.example/x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, err := Load(d)
	if err != nil || c.CACert != file || c.Registry != "https://r.example/x" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range [][2]string{{"registry", "ftp://x"}, {"registry", "https://u:p@x"}, {"registry", "/no/such"}, {"regstry", "x"}, {"caCert", "relative"}} {
		if err := Change(d, bad[0], bad[1]); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	if err := Change(d, "registry", ""); err != nil {
		t.Fatal(err)
	}
	if c, _ := Load(d); c.Registry != "" || c.CACert != file {
		t.Errorf("after unset: %+v", c)
	}
}

func TestAFailedWriteKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := WriteAtomic(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The target is a directory now: the rename must fail and leave no trace.
	blocked := filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteAtomic(blocked, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("the file holds %q", b)
	}
	info, _ := os.Stat(path)
	if fmt.Sprint(info.Mode().Perm()) != "-rw-------" {
		t.Errorf("mode %s", info.Mode())
	}
}
