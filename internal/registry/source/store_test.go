package source

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlite"
)

func openStore(t *testing.T, path string) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// heads is what a store has of a source, deleted versions too.
func heads(t *testing.T, st store.Store, source string) map[string]store.Head {
	t.Helper()
	out := map[string]store.Head{}
	_, err := st.Changes(context.WithoutCancel(t.Context()), source, 0, func(h store.Head) error {
		out[h.Name+"@"+h.Version] = h
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func syncOf(t *testing.T, st store.Store, source string) store.Sync {
	t.Helper()
	states, err := st.Syncs(context.WithoutCancel(t.Context()), []string{source})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func TestSyncer_Database(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	writeFile(t, path, registryFile(server("io.example/a", "1.0.0", "Alpha"), server("io.example/b", "1.0.0", "Beta")))
	st := openStore(t, filepath.Join(t.TempDir(), "registry.db"))
	running(t, st, Options{}, fileAt(path, time.Hour))
	eventually(t, "both are there", func() bool { return len(heads(t, st, "files")) == 2 })
	first := heads(t, st, "files")
	if a := first["io.example/a@1.0.0"]; a.Status != "active" || a.PublishedAt.IsZero() || a.UpdatedAt.IsZero() || a.StatusChangedAt.IsZero() || a.Search == "" {
		t.Errorf("got %+v", a)
	}
	writeFile(t, path, registryFile(server("io.example/a", "1.0.0", "Alpha, changed")))
	eventually(t, "the change is there", func() bool { return heads(t, st, "files")["io.example/b@1.0.0"].Status == "deleted" })
	a, before := heads(t, st, "files")["io.example/a@1.0.0"], first["io.example/a@1.0.0"]
	if !a.PublishedAt.Equal(before.PublishedAt) || !a.StatusChangedAt.Equal(before.StatusChangedAt) || !a.UpdatedAt.After(before.UpdatedAt) {
		t.Errorf("from %+v\nto %+v", before, a)
	}
	state := syncOf(t, st, "files")
	state.LastAttempt, state.LastSuccess, state.Digest = time.Time{}, time.Time{}, ""
	if diff := cmp.Diff(store.Sync{Source: "files", Phase: "complete", Servers: 1, Versions: 1}, state); diff != "" {
		t.Error(diff)
	}
}

func TestSyncer_TwoProcesses(t *testing.T) {
	db := filepath.Join(t.TempDir(), "registry.db")
	one := &scripted{answer: content(server("io.example/a", "1.0.0", "x"))}
	two := &scripted{answer: content(server("io.example/b", "1.0.0", "x"))}
	cfg := config.Source{Name: "up", Git: &config.Git{Repository: "https://git.example/r"}, Interval: config.Duration(50 * time.Millisecond)}
	start := func(owner string, src Source) func() {
		_, stop := running(t, openStore(t, db), Options{Owner: owner, Lease: 15 * time.Second, wrap: func(Source) Source { return src }}, cfg)
		return stop
	}
	reader := openStore(t, db)
	shown := func() []string {
		var out []string
		for name, h := range heads(t, reader, "up") {
			if h.Status != "deleted" {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	stopOne := start("one", one)
	eventually(t, "the first leads", func() bool { return one.count() > 2 })
	start("two", two)
	for n := one.count() + 5; one.count() < n; time.Sleep(time.Millisecond) {
		if two.count() > 0 {
			t.Fatal("both synchronize")
		}
	}
	if diff := cmp.Diff([]string{"io.example/a@1.0.0"}, shown()); diff != "" {
		t.Error(diff)
	}
	stopOne()
	eventually(t, "the second takes over", func() bool { return slices.Equal(shown(), []string{"io.example/b@1.0.0"}) })
}

// The lease of a process that dies expires.
func TestSyncer_TakeoverAfterDeath(t *testing.T) {
	db := filepath.Join(t.TempDir(), "registry.db")
	st := openStore(t, db)
	if ok, err := st.Acquire(t.Context(), "files", "the dead", 5*time.Second); !ok || err != nil {
		t.Fatal(ok, err)
	}
	dying := store.Sync{Source: "files", Phase: "syncing", LastAttempt: time.Now().UTC().Truncate(time.Microsecond)}
	if err := st.SetSync(t.Context(), "the dead", dying); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "registry.json")
	writeFile(t, path, registryFile(server("io.example/a", "1.0.0", "x")))
	running(t, openStore(t, db), Options{Lease: 3 * time.Second}, fileAt(path, time.Hour))
	eventually(t, "it is synchronized", func() bool { return syncOf(t, st, "files").Phase == "complete" })
}

// What a large list costs: one attempt is one transaction, and the next one that
// finds nothing new writes nothing.
func TestSyncer_LargeList(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	st := openStore(t, filepath.Join(t.TempDir(), "registry.db"))
	up := &scripted{answer: content(numbered(5_000)...)}
	s, _ := running(t, st, Options{Lease: time.Minute, wrap: func(Source) Source { return up }}, config.Source{
		Name: "up", API: &config.API{Endpoint: "https://registry.example"}, Interval: config.Duration(time.Hour),
	})
	eventually(t, "all are there", func() bool { return syncOf(t, st, "up").Servers == 5_000 })
	revision := func() int64 {
		r, err := st.Revisions(t.Context(), []string{"up"})
		if err != nil {
			t.Fatal(err)
		}
		return r[0].Number
	}
	before := revision()
	s.Refresh()
	eventually(t, "it is fetched again", func() bool { return up.count() > 1 && syncOf(t, st, "up").Phase == "complete" })
	if revision() != before || up.count() != 2 {
		t.Errorf("revision %d after %d, %d fetches", revision(), before, up.count())
	}
}
