package catalog

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlite"
)

// A fix of an old line that is published last is first, and is not the latest.
func TestVersions_Order(t *testing.T) {
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i, version := range []string{"2.0.0", "1.0.0", "nightly", "1.0.1"} {
		_, err := st.Insert(t.Context(), store.Version{
			Head:     store.Head{Source: "s", Name: "a/b", Version: version, Status: "active", PublishedAt: day.AddDate(0, 0, i)},
			Document: []byte("{}"),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reg, _ := New(st, []Definition{{Name: "r", Sources: []string{"s"}}}).Registry("r")
	all, err := reg.Versions(t.Context(), "a/b", false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		name := s.Version.Version
		if s.IsLatest {
			name += "*"
		}
		got = append(got, name)
	}
	if text := strings.Join(got, " "); text != "1.0.1 nightly 1.0.0 2.0.0*" {
		t.Error(text)
	}
}
