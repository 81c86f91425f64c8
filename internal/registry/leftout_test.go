package registry

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Versions that the official registry accepts, and that no path can hold.
var unusableVersions = []string{"1 0", "1/0", ".."}

func TestParse_MalformedEntries(t *testing.T) {
	good, malformed := named("io.one/good", "1.0.0"), []string{`{"name": 7}`, `"text"`, `{"description": "no name"}`}
	for i, v := range unusableVersions {
		malformed = append(malformed, named(fmt.Sprintf("io.one/bad-%d", i), v))
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := []string{`{"_meta": {}}`}
		for _, s := range append(malformed, good) {
			items = append(items, `{"server": `+s+`}`)
		}
		fmt.Fprintf(w, `{"servers": [%s], "metadata": {}}`, strings.Join(items, ","))
	}))
	defer api.Close()
	for name, c := range map[string]struct {
		catalog   Catalog
		malformed int
	}{
		"file": {openFile(t, wrap(append([]string{good}, malformed...)...)), 6},
		"API":  {open(t, api.URL), 7},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := c.catalog.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := names(list.Entries); got != "io.one/good@1.0.0" || list.LeftOut.Malformed != c.malformed {
				t.Errorf("entries %s, left out %+v", got, list.LeftOut)
			}
			if why := list.LeftOut.Why(); strings.Contains(why, "\n") || !strings.Contains(why, fmt.Sprintf("; and %d more", c.malformed-maxReasons)) {
				t.Errorf("reasons %q", why)
			}
			if e, err := c.catalog.Get(t.Context(), "good"); err != nil || e.Name != "io.one/good" {
				t.Errorf("get: %+v, %v", e, err)
			}
			if _, err := c.catalog.Get(t.Context(), "bad-1"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "cannot be used") {
				t.Errorf("get an entry that was left out: %v", err)
			}
		})
	}
}

func TestParse_NoUsableEntry(t *testing.T) {
	for _, v := range unusableVersions {
		_, err := openFile(t, wrap(named("a/b", v))).List(t.Context())
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "none of its 1 entries") || !strings.Contains(err.Error(), v) {
			t.Errorf("version %q: %v", v, err)
		}
	}
}

func TestParse_NoServers(t *testing.T) {
	for _, content := range []string{`{"data": {}}`, `{"data": {"skills": [{"name": "s"}]}}`, `{"data": {"groups": null}}`} {
		if _, _, err := Parse([]byte(content)); err == nil || !strings.Contains(err.Error(), `data has no "servers"`) {
			t.Errorf("%s: %v", content, err)
		}
	}
	if _, leftOut, err := Parse([]byte(`{"data": {"servers": [], "skills": [1, {}], "plugins": [{}]}}`)); err != nil || leftOut.Others != 3 {
		t.Errorf("skills and plugins: %+v, %v", leftOut, err)
	}
}

func TestSearchOrder(t *testing.T) {
	entry := func(name, title, description string, tags ...string) *Entry {
		return &Entry{Name: name, Title: title, Description: description, Tags: tags, Status: Active}
	}
	all := []*Entry{
		entry("io.github.a/weather", "", "forecasts"),
		entry("io.github.z/github-mcp-server", "GitHub", "repositories"),
		entry("io.github.b/notes", "Notes for GitHub", "texts"),
		entry("io.github.c/github", "", "issues"),
		entry("io.github.c/mygithubby", "", "issues"),
		entry("io.github.d/ci", "CI", "pipelines", "github"),
		entry("io.github.e/ci", "CI", "pipelines of GitHub"),
		entry("io.github.f/brave", "Brave Search", "finds web pages"),
		entry("io.github.g/searcher", "Searches with brave", "finds web pages by search"),
	}
	for query, want := range map[string][]string{
		"GitHub": {
			"io.github.z/github-mcp-server", "io.github.c/github", "io.github.b/notes", "io.github.c/mygithubby", "io.github.d/ci",
			"io.github.e/ci", "io.github.a/weather", "io.github.f/brave", "io.github.g/searcher",
		},
		"brave search": {"io.github.f/brave", "io.github.g/searcher"},
		"io.github.d":  {"io.github.d/ci"},
		"absent":       nil,
	} {
		var got []string
		for _, e := range newList(all, query, LeftOut{}).Entries {
			got = append(got, e.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("search %q: %s", query, diff)
		}
	}
}

func TestScore_WholeWords(t *testing.T) {
	for text, want := range map[string]bool{
		"git": true, "a git b": true, "github": false, "github git": true, "digit": false, "digit-git": true, "é-git": true, "égit": false, "": false,
	} {
		if got := hasWord(text, "git"); got != want {
			t.Errorf("%q has the word git: %v", text, got)
		}
	}
}
