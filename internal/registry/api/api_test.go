package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlite"
)

// large is an API over 20,000 servers with three versions each.
func large(b *testing.B) http.Handler {
	b.Helper()
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "registry.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	now := time.Now().UTC().Truncate(time.Microsecond)
	var versions []store.Version
	for i := range 20_000 {
		for v := range 3 {
			name, version := fmt.Sprintf("io.github.owner-%d/server-%d", i%971, i), fmt.Sprintf("%d.0.0", v)
			versions = append(versions, store.Version{
				Head:     store.Head{Source: "s", Name: name, Version: version, Status: "active", StatusChangedAt: now, Search: name},
				Document: fmt.Appendf(nil, `{"name":%q,"version":%q,"description":"Gives agents access to number %d","packages":[{"registryType":"npm","identifier":"@owner/server-%d","version":"1.0.0","transport":{"type":"stdio"},"environmentVariables":[{"name":"API_TOKEN","description":"What signs in","isRequired":true,"isSecret":true}]}]}`, name, version, i, i),
			})
		}
	}
	if ok, err := st.Acquire(b.Context(), "s", "me", time.Hour); err != nil || !ok {
		b.Fatal(ok, err)
	}
	if _, err := st.Replace(b.Context(), "s", "me", versions, store.Sync{Source: "s"}); err != nil {
		b.Fatal(err)
	}
	cat := catalog.New(st, []catalog.Definition{{Name: "default", Sources: []string{"s"}}})
	if err := cat.Warm(b.Context()); err != nil {
		b.Fatal(err)
	}
	return New(Options{Catalog: cat, Log: slog.New(slog.DiscardHandler), Audit: record(b, "")})
}

func benchmark(b *testing.B, target func(i int) string) {
	h := large(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target(i), nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}

func BenchmarkPageOf30(b *testing.B) {
	benchmark(b, func(int) string { return "/registry/default/v0.1/servers" })
}

func BenchmarkSearchWithoutResult(b *testing.B) {
	benchmark(b, func(int) string { return "/registry/default/v0.1/servers?search=" + url.QueryEscape("absent word") })
}
