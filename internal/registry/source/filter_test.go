package source

import (
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
)

func TestMatch(t *testing.T) {
	for _, row := range []struct {
		pattern, text string
		fits          bool
	}{
		{"*", "io.example/a", true},
		{"*", "", true},
		{"io.example/a", "io.example/a", true},
		{"io.example/a", "io.example/ab", false},
		{"io.example/*", "io.example/a", true},
		{"io.example/*", "io.examples/a", false},
		{"io.*", "io.example/a/b", true}, // across slashes
		{"*/a", "io.example/a", true},
		{"*/a", "io.example/ba", false},
		{"*example*", "io.example/a", true},
		{"a*b*c", "axxbyybzc", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false}, // two of them are wanted
		{"a**a", "aa", true},
		{"*ab", "abab", true},
		{"io.example/[a]", "io.example/a", false}, // nothing but * is special
		{"io.example/?", "io.example/a", false},
		{"IO.*", "io.example/a", false},
		{"", "", true},
	} {
		if got := match(row.pattern, row.text); got != row.fits {
			t.Errorf("%q, %q: %v", row.pattern, row.text, got)
		}
	}
	if !match(strings.Repeat("*a", 1000)+"*", strings.Repeat("a", 5000)) {
		t.Error("many stars")
	}
}

func TestFilter(t *testing.T) {
	names := func(in, out []string) config.Filter {
		return config.Filter{Names: config.Match{Include: in, Exclude: out}}
	}
	tags := func(in, out []string) config.Filter {
		return config.Filter{Tags: config.Match{Include: in, Exclude: out}}
	}
	for _, row := range []struct {
		what   string
		filter config.Filter
		tags   []string
		want   bool
	}{
		{"no filter", config.Filter{}, nil, true},
		{"a name included", names([]string{"x", "io.*"}, nil), nil, true},
		{"a name not included", names([]string{"com.*"}, nil), nil, false},
		{"exclusion wins over inclusion", names([]string{"io.*"}, []string{"*/a"}), nil, false},
		{"a tag included", tags([]string{"db"}, nil), []string{"web", "db"}, true},
		{"tags are compared exactly", tags([]string{"db"}, nil), []string{"DB", "db2", "d*"}, false},
		{"tags have no patterns", tags([]string{"d*"}, nil), []string{"db"}, false},
		{"a server without tags fails an inclusion", tags([]string{"db"}, nil), nil, false},
		{"a server without tags passes an exclusion", tags(nil, []string{"db"}), nil, true},
		{"a tag excluded", tags([]string{"web"}, []string{"db"}), []string{"web", "db"}, false},
		{"both must let it through", config.Filter{Names: config.Match{Include: []string{"io.*"}}, Tags: config.Match{Include: []string{"db"}}}, []string{"web"}, false},
	} {
		e := &Entry{Document: serverjson.Document{Name: "io.example/a", Tags: row.tags}}
		if got := selects(row.filter, e); got != row.want {
			t.Errorf("%s: %v", row.what, got)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := func() config.Source {
		return config.Source{Name: "a", Git: &config.Git{Repository: "https://git.example/r", Branch: "main", Path: "registry.json"}}
	}
	first := fingerprint(base())
	for what, change := range map[string]func(*config.Source){
		"the repository": func(s *config.Source) { s.Git.Repository += "2" },
		"the branch":     func(s *config.Source) { s.Git.Branch = "next" },
		"branch to tag":  func(s *config.Source) { s.Git.Branch, s.Git.Tag = "", "main" },
		"the path":       func(s *config.Source) { s.Git.Path = "x.json" },
		"a name":         func(s *config.Source) { s.Filter.Names.Include = []string{"a"} },
		"an exclusion":   func(s *config.Source) { s.Filter.Names.Exclude = []string{"a"} },
		"a tag":          func(s *config.Source) { s.Filter.Tags.Include = []string{"a"} },
	} {
		s := base()
		change(&s)
		if fingerprint(s) == first {
			t.Errorf("%s does not change it", what)
		}
	}
	same := base()
	same.Interval, same.Git.CACertPath, same.Git.Username, same.Git.PasswordFile = 5, "ca.pem", "u", "p"
	if fingerprint(same) != first {
		t.Error("how it is reached changes it")
	}
	x, y := base(), base()
	x.Filter.Names.Include, y.Filter.Names.Include = []string{"a", "b"}, []string{"b", "a"}
	if fingerprint(x) != fingerprint(y) {
		t.Error("the order of patterns changes it")
	}
}
