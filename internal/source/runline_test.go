package source

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/runline"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// The line that is printed for an entry of the built-in catalog works: a shell
// reads it, and thv run finds nothing missing but secrets, which it reads unseen.
func TestThePrintedLineOfEveryBuiltInServerWorks(t *testing.T) {
	c, err := registry.Open("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.List(t.Context())
	if err != nil || len(all.Entries) < 100 || all.LeftOut.Malformed > 0 {
		t.Fatalf("%d entries, left out %+v, %v", len(all.Entries), all.LeftOut, err)
	}
	open := func() (registry.Catalog, error) { return c, nil }
	for _, e := range all.Entries {
		command := runline.For(e, e.Name)
		if command.Line == "" {
			t.Errorf("%s: %s", e.Name, command.Reason)
			continue
		}
		req, values := parseLine(t, command.Line)
		req.Catalog = open
		r, err := Resolve(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", command.Line, err)
			continue
		}
		for _, in := range r.Inputs {
			if in.Required && in.Default == "" && !in.Secret && !values[in.Name] {
				t.Errorf("%s: the variable %s is missing", command.Line, in.Name)
			}
		}
		if err := workload.Validate(runnableSpec(r.Spec, r.Name)); err != nil {
			t.Errorf("%s: %v", command.Line, err)
		}
	}
}

func TestPrintedLinesHaveFoldersArgumentsAndVariables(t *testing.T) {
	c, err := registry.Open("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"filesystem":      "thv run io.github.toolhaven/filesystem -v '<path>:/data/directory' -- /data/directory",
		"azure-devops":    "thv run io.github.toolhaven/azure-devops -- '<organization>'",
		"google-calendar": "thv run io.github.toolhaven/google-calendar -v '<path>:/data/google_oauth_credentials' -e GOOGLE_OAUTH_CREDENTIALS=/data/google_oauth_credentials",
		"clickhouse":      "thv run io.github.toolhaven/clickhouse -e 'CLICKHOUSE_HOST=<value>' -e 'CLICKHOUSE_USER=<value>'",
		"notion":          "thv run io.github.toolhaven/notion",
	} {
		e, err := c.Get(t.Context(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := runline.For(e, e.Name).Line; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// parseLine reads a line as a shell and thv run do, and returns the names of the
// variables that it gives.
func parseLine(t *testing.T, line string) (req Request, variables map[string]bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `printf '%s\n' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(words) < 3 || words[0] != "thv" || words[1] != "run" {
		t.Fatalf("not a run line: %s", line)
	}
	req.Arg, words = words[2], words[3:]
	variables = map[string]bool{}
	for len(words) > 0 {
		flag := words[0]
		if flag == "--" {
			req.Args = words[1:]
			return req, variables
		}
		if len(words) < 2 {
			t.Fatalf("%s: %s has no value", line, flag)
		}
		value := words[1]
		words = words[2:]
		switch flag {
		case "-v":
			host, inside, _ := strings.Cut(value, ":")
			if host == "" || !strings.HasPrefix(inside, "/") {
				t.Errorf("%s: -v %s is no mount", line, value)
			}
			req.Mounts = true
		case "-e":
			name, _, found := strings.Cut(value, "=")
			if !found {
				t.Errorf("%s: -e %s has no value", line, value)
			}
			variables[name] = true
		case "--network":
			req.Network = true
		case "--permission-profile":
			req.Permissions = true
		default:
			t.Errorf("%s: unknown flag %s", line, flag)
		}
	}
	return req, variables
}
