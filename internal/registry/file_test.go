package registry

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func named(name, version string) string {
	return `{"name": "` + name + `", "version": "` + version + `", "description": "about ` + name + `"}`
}

func openFile(t *testing.T, content string) Catalog {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAServerIsFoundByItsNames(t *testing.T) {
	c := openFile(t, wrap(
		named("io.one/fetch", "1.0.0"), named("io.one/fetch", "1.10.0"), named("io.one/fetch", "1.9.0"),
		named("io.one/same", "1.0.0"), named("io.two/same", "1.0.0"), named("plain", "beta"), named("plain", "alpha")))
	for name, want := range map[string]string{
		"io.one/fetch":        "io.one/fetch 1.10.0",
		"fetch":               "io.one/fetch 1.10.0",
		"fetch@1.9.0":         "io.one/fetch 1.9.0",
		"io.one/fetch@1.0.0":  "io.one/fetch 1.0.0",
		"io.one/fetch@latest": "io.one/fetch 1.10.0",
		"io.two/same":         "io.two/same 1.0.0",
		"plain":               "plain alpha", // order unknown: the later in the file
	} {
		e, err := c.Get(t.Context(), name)
		if err != nil || e.Name+" "+e.Version != want {
			t.Errorf("%s: %+v, %v; want %s", name, e, err, want)
		}
	}
	for name, want := range map[string]struct {
		err  error
		says []string
	}{
		"same":               {ErrAmbiguous, []string{"io.one/same", "io.two/same", "full name"}},
		"fetsh":              {ErrNotFound, []string{`"fetsh"`, "did you mean fetch?"}},
		"io.one/fetsh":       {ErrNotFound, []string{"did you mean io.one/fetch?"}},
		"nothing-like-it":    {ErrNotFound, []string{"nothing-like-it", c.Location()}},
		"io.one":             {ErrNotFound, nil},
		"io.one/fetch@2.0.0": {ErrNotFound, []string{"2.0.0", "1.10.0"}},
	} {
		_, err := c.Get(t.Context(), name)
		if !errors.Is(err, want.err) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range want.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", name, err, s)
			}
		}
	}
}

func names(entries []*Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Name+"@"+e.Version)
	}
	return strings.Join(out, " ")
}

func TestListsHaveTheLatestVersionsByName(t *testing.T) {
	c := openFile(t, wrap(named("io.two/b", "2.0.0"), named("io.two/b", "1.0.0"), named("io.one/a", "1.0.0"), `{"name": "io.two/gone", "version": "1.0.0", "status": "deleted"}`))
	all, err := c.List(t.Context())
	if got := names(all); err != nil || got != "io.one/a@1.0.0 io.two/b@2.0.0" {
		t.Errorf("%s, %v", got, err)
	}
	found, err := c.Search(t.Context(), "TWO about")
	if got := names(found); err != nil || got != "io.two/b@2.0.0" {
		t.Errorf("%s, %v", got, err)
	}
	if found, err := c.Search(t.Context(), "two elephants"); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.json")
	c, err := Open(missing, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "x"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), missing) || strings.Count(err.Error(), missing) != 1 {
		t.Errorf("missing: %v", err)
	}
	c = openFile(t, "{\n]")
	if _, err := c.List(t.Context()); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.Location()) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("broken: %v", err)
	}
	big := filepath.Join(t.TempDir(), "big.json")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxFile + 1); err != nil { // sparse
		t.Fatal(err)
	}
	f.Close()
	c, _ = Open(big, nil)
	if _, err := c.List(t.Context()); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("big: %v", err)
	}
}

func TestAFileBehindAURLIsFetchedOnce(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/some/registry.json" || r.URL.RawQuery != "ref=main" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(wrap(minimal)))
	}))
	defer server.Close()
	c, err := Open(server.URL+"/some/registry.json?ref=main", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if e, err := c.Get(t.Context(), "a"); err != nil || e.Name != "io.example/a" {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	c, _ = Open(server.URL+"/other.json", server.Client())
	if _, err := c.Get(t.Context(), "a"); errors.Is(err, ErrNotFound) || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "404") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestWhatIsNoRegistryIsRefusedAtOnce(t *testing.T) {
	for _, location := range []string{"ftp://example.com", "https://", "https://user:secret@example.com", "http://[::1"} {
		_, err := Open(location, nil)
		if err == nil {
			t.Errorf("%s was accepted", location)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells the password", err)
		}
	}
}

// The catalog in the program is held to the official rules of server.json
// (schema 2025-12-11), beside those for every registry.
func TestTheBuiltInCatalogFollowsTheRules(t *testing.T) {
	c, err := Open("", nil)
	if err != nil || c.Location() != BuiltIn {
		t.Fatal(err)
	}
	all, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name, "io.github.toolhaven/") || len(e.Description) < 1 || len(e.Description) > 100 || len(e.Title) < 1 || len(e.Title) > 100 || len(e.Tags) == 0 {
			t.Errorf("%+v", e)
		}
		if len(e.Packages)+len(e.Remotes) != 1 {
			t.Errorf("%s: not one way to run it", e.Name)
		}
		for _, p := range e.Packages {
			// Pinned: what runs is what was tried.
			if !semver.MatchString(p.Version) || !slices.Contains([]string{"npm", "pypi", "go"}, p.RegistryType) {
				t.Errorf("%s: %s %s %q", e.Name, p.RegistryType, p.Identifier, p.Version)
			}
		}
		for _, r := range e.Remotes {
			if !strings.HasPrefix(r.URL, "https://") {
				t.Errorf("%s: %s", e.Name, r.URL)
			}
		}
	}
	for _, name := range []string{"everything", "everything-go", "fetch", "filesystem", "git", "memory", "sequential-thinking", "time", "deepwiki"} {
		if _, err := c.Get(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// Registry files as users have them. They are not part of the project: set
// THV_TEST_REGISTRY_DATA to a directory that holds them.
func TestRealFilesAreReadWhole(t *testing.T) {
	dir := os.Getenv("THV_TEST_REGISTRY_DATA")
	if dir == "" {
		t.Skip("SKIPPED: THV_TEST_REGISTRY_DATA does not name a directory of real registry files")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no registry files in %s: %v", dir, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var raw struct {
			Servers json.RawMessage            `json:"servers"`
			Remotes map[string]json.RawMessage `json:"remote_servers"`
			Data    struct {
				Servers []json.RawMessage `json:"servers"`
			} `json:"data"`
		}
		if err := json.Unmarshal(content, &raw); err != nil {
			t.Fatal(err)
		}
		var older map[string]json.RawMessage
		_ = json.Unmarshal(raw.Servers, &older) // absent in the wrapped format
		entries, err := Parse(content)
		if want := len(older) + len(raw.Remotes) + len(raw.Data.Servers); err != nil || len(entries) != want || want == 0 {
			t.Errorf("%s: %d of %d entries, %v", file, len(entries), want, err)
		}
		for _, e := range entries {
			if e.Description == "" || len(e.Packages)+len(e.Remotes) != 1 || len(e.Tools) == 0 || e.Tier == "" {
				t.Errorf("%s: something is lost: %+v", file, e)
			}
		}
	}
}
