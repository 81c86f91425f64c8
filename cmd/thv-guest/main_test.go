package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program, none := file("program", `["/server","--serve"]`), file("none", `[]`)
	for line, want := range map[string]string{ // "" is an error
		"--socket /run/x -- /server -q":                             "/server -q",
		"--socket /run/x --program " + program + " --":              "/server --serve",
		"--socket /run/x --program " + program + " -- -q":           "/server --serve -q",
		"--socket /run/x --drain 40s -- /server -- -q":              "/server -- -q",
		"--socket /run/x --drain -1s -- /server":                    "",
		"--socket /run/x --drain 40 -- /server":                     "",
		"--socket /run/x --":                                        "",
		"--socket /run/x":                                           "",
		"--socket x -- /server":                                     "",
		"--socket /run/x --program " + program:                      "",
		"--socket /run/x --program " + none + " -- -q":              "",
		"--socket /run/x --program " + dir + "/missing -- /server":  "",
		"--socket /run/x --program " + file("text", "x") + " -- /a": "",
		"--socket /run/x /server":                                   "",
	} {
		s, err := parseServe(strings.Fields(line))
		if (err == nil) != (want != "") || err == nil && (s.socket != "/run/x" || !slices.Equal(s.argv, strings.Fields(want))) {
			t.Errorf("%s: %+v, %v", line, s, err)
		}
	}
}
