package source

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/registry/api"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
)

// One registry server is the source of another: everything it says of its
// versions arrives, deletions too.
func TestAPI_ChainOfRegistries(t *testing.T) {
	upstreamStore := openStore(t, filepath.Join(t.TempDir(), "upstream.db"))
	cat := catalog.New(upstreamStore, []catalog.Definition{{Name: "main", Sources: []string{"own"}, Managed: "own"}})
	record, err := auditlog.Open(auditlog.Options{Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(api.New(api.Options{Catalog: cat, Log: slog.New(slog.DiscardHandler), Audit: record}))
	defer front.Close()
	main, _ := cat.Registry("main")
	publish := func(name, version string) {
		t.Helper()
		doc, err := serverjson.Parse([]byte(server(name, version, "published")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := main.Publish(t.Context(), doc); err != nil {
			t.Fatal(err)
		}
	}
	publish("io.example/a", "1.0.0")
	publish("io.example/a", "1.1.0")
	publish("io.example/b", "1.0.0")

	st := openStore(t, filepath.Join(t.TempDir(), "downstream.db"))
	s, _ := running(t, st, Options{}, config.Source{
		Name: "up", API: &config.API{Endpoint: front.URL + "/registry/main"}, Interval: config.Duration(time.Hour),
	})
	eventually(t, "all are there", func() bool { return len(heads(t, st, "up")) == 3 })
	if _, err := main.SetStatus(t.Context(), "io.example/a", "1.0.0", "deprecated", "use 1.1.0"); err != nil {
		t.Fatal(err)
	}
	if _, err := main.SetStatus(t.Context(), "io.example/b", "", "deleted", "a mistake"); err != nil {
		t.Fatal(err)
	}
	s.Refresh()
	eventually(t, "the deletion arrives", func() bool { return heads(t, st, "up")["io.example/b@1.0.0"].Status == "deleted" })
	want := heads(t, upstreamStore, "own")
	got := heads(t, st, "up")
	for name, h := range want {
		g := got[name]
		if g.UpdatedAt.Before(h.UpdatedAt) {
			t.Errorf("%s: updated at %s there, and at %s here", name, h.UpdatedAt, g.UpdatedAt)
		}
		h.ID, g.ID, h.Source, g.Source, g.UpdatedAt = 0, 0, "", "", h.UpdatedAt
		if diff := cmp.Diff(h, g); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
