package registry

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "registry.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, location string) Catalog {
	t.Helper()
	c, err := Open(location, http.DefaultClient, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const several = `{"data": {"servers": [
  {"name": "org.one/time", "version": "1.10.0", "description": "clock of one"},
  {"name": "org.one/time", "version": "1.9.0", "description": "clock of one"},
  {"name": "org.one/time", "version": "2.0.0-rc.1", "description": "clock of one"},
  {"name": "org.two/time", "version": "1.0.0", "description": "clock of two"},
  {"name": "org.two/weather", "version": "3", "title": "Sky", "description": "RAIN or not"},
  {"name": "org.two/gone", "version": "1", "status": "deleted", "description": "rain"}
]}}`

func TestLookup_Names(t *testing.T) {
	c := open(t, writeFile(t, several))
	for _, tc := range []struct {
		name, found, version string
		err                  error
		says                 []string
	}{
		{name: "org.two/weather", found: "org.two/weather", version: "3"},
		{name: "weather", found: "org.two/weather", version: "3"},
		{name: "weather@3", found: "org.two/weather", version: "3"},
		{name: "org.one/time", found: "org.one/time", version: "2.0.0-rc.1"},
		{name: "org.one/time@latest", found: "org.one/time", version: "2.0.0-rc.1"},
		{name: "org.one/time@1.9.0", found: "org.one/time", version: "1.9.0"},
		{name: "time", err: ErrAmbiguous, says: []string{"org.one/time", "org.two/time", "full name"}},
		{name: "wether", err: ErrNotFound, says: []string{`"wether"`, "did you mean weather?"}},
		{name: "org.two/tim", err: ErrNotFound, says: []string{"did you mean org.two/time?"}},
		{name: "two/weather", err: ErrNotFound},
		{name: "org.one/time@7", err: ErrNotFound, says: []string{"no version 7", "1.9.0"}},
		{name: "", err: ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := c.Get(context.Background(), tc.name)
			if tc.err == nil {
				if err != nil || e.Name != tc.found || e.Version != tc.version {
					t.Fatalf("%+v, %v; want %s %s", e, err, tc.found, tc.version)
				}
				return
			}
			if !errors.Is(err, tc.err) {
				t.Fatalf("%v; want %v", err, tc.err)
			}
			for _, want := range append(tc.says, c.Location()) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestLookup_ExactName(t *testing.T) {
	c := open(t, writeFile(t, `{"servers": {"org.x/time": {"image": "i/a"}, "time": {"image": "i/b"}}}`))
	if e, err := c.Get(context.Background(), "time"); err != nil || e.Name != "time" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestSearch(t *testing.T) {
	c := open(t, writeFile(t, several))
	for query, want := range map[string][]string{
		"":           {"org.one/time", "org.two/time", "org.two/weather"},
		"clock":      {"org.one/time", "org.two/time"},
		"TWO clock":  {"org.two/time"},
		"sky":        {"org.two/weather"},
		"rain":       {"org.two/weather"},
		"no such %_": nil,
	} {
		found, err := c.Search(context.Background(), query)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range found.Entries {
			names = append(names, e.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("search %q: %s", query, diff)
		}
	}
}

func TestOpen_InvalidSetting(t *testing.T) {
	for _, location := range []string{"ftp://r.example/x.json", "https://", "https://me:secret@r.example", "docker://x", "http://%zz"} {
		_, err := Open(location, http.DefaultClient, nil)
		if err == nil {
			t.Errorf("%s was accepted", location)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q repeats the password", err)
		}
	}
}

func TestOpen_UnreadableFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.json")
	if _, err := open(t, missing).List(context.Background()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing: %v", err)
	}
	bad := writeFile(t, "{\n!}")
	if _, err := open(t, bad).Get(context.Background(), "x"); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("malformed: %v", err)
	}
}

// The built-in catalog is read by the same rules as anybody's, and pins a version
// of everything that is fetched.
func TestBuiltIn_CompleteAndPinned(t *testing.T) {
	c := open(t, "")
	list, err := c.List(context.Background())
	if err != nil || list.LeftOut.Malformed > 0 {
		t.Fatal(err, list.LeftOut)
	}
	all := list.Entries
	for _, name := range []string{"everything", "filesystem", "memory", "sequential-thinking", "time", "git", "fetch", "deepwiki"} {
		if _, err := c.Get(context.Background(), name); err != nil {
			t.Error(err)
		}
	}
	for _, e := range all {
		if e.Description == "" || len(e.Description) > 100 {
			t.Errorf("%s: the description has %d bytes; server.json wants 1 to 100", e.Name, len(e.Description))
		}
		if len(e.Packages)+len(e.Remotes) == 0 {
			t.Errorf("%s cannot be run", e.Name)
		}
		for _, p := range e.Packages {
			if p.RegistryType != "oci" && (p.Version == "" || strings.ContainsAny(p.Version, "^~*<>=| ") || p.Version == "latest") {
				t.Errorf("%s: %s is not pinned (%q)", e.Name, p.Identifier, p.Version)
			}
		}
		for _, r := range e.Remotes {
			if !strings.HasPrefix(r.URL, "https://") {
				t.Errorf("%s: %s is not https", e.Name, r.URL)
			}
		}
	}
}

// Semantic Versioning 2.0.0, section 11, and its own example.
func TestVersions_Order(t *testing.T) {
	order := []string{"nightly", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "v1.9.0", "1.10.0"}
	for i, a := range order {
		for j, b := range order {
			if got, want := CompareVersions(a, b), sign(i-j); got != want {
				t.Errorf("compare %s with %s = %d, want %d", a, b, got, want)
			}
		}
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
