package registry

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	c, err := Open(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Versions that do not follow Semantic Versioning have no order of their own: the
// later in the file counts as newer.
func TestFile_UnorderedVersions(t *testing.T) {
	c := openFile(t, wrap(named("io.one/a", "beta"), named("io.one/a", "alpha"), named("io.one/b", "1.0.0"), named("io.one/b", "nightly")))
	for name, want := range map[string]string{"a": "alpha", "a@beta": "beta", "io.one/a@latest": "alpha", "b": "1.0.0"} {
		if e, err := c.Get(t.Context(), name); err != nil || e.Version != want {
			t.Errorf("%s: %+v, %v; want version %s", name, e, err, want)
		}
	}
	all, err := c.List(t.Context())
	if got := names(all.Entries); err != nil || got != "io.one/a@alpha io.one/b@1.0.0" {
		t.Errorf("%s, %v", got, err)
	}
}

func names(entries []*Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Name+"@"+e.Version)
	}
	return strings.Join(out, " ")
}

func TestFile_UnknownVersion(t *testing.T) {
	for content, says := range map[string]string{
		wrap(named("io.one/a", "1.0.0"), named("io.one/a", "1.1.0")): "it has 1.0.0, 1.1.0",
		`{"servers": {"a": {"image": "i"}}}`:                         "has no versions",
	} {
		if _, err := openFile(t, content).Get(t.Context(), "a@9"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

func TestFile_TooLarge(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.json")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxFile + 1); err != nil { // sparse
		t.Fatal(err)
	}
	f.Close()
	c, err := Open(big, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context()); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("big: %v", err)
	}
}

func TestFile_URLFetchedOnce(t *testing.T) {
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
	c, err := Open(server.URL+"/some/registry.json?ref=main", server.Client(), nil)
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
	c, _ = Open(server.URL+"/other.json", server.Client(), nil)
	if _, err := c.Get(t.Context(), "a"); errors.Is(err, ErrNotFound) || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "404") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Registry files as users have them. They are not part of the project: set
// THV_TEST_REGISTRY_DATA to a directory that holds them.
func TestFile_RealFiles(t *testing.T) {
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
		entries, err := parse(content)
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
