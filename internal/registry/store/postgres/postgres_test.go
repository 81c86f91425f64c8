//go:build integration

package postgres

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/storetest"
	server "github.com/toolhaven/toolhaven/test/postgres"
)

func openAt(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	pg := server.Start(t)
	storetest.Run(t, func(t *testing.T) (first, second store.Store) {
		url := pg.Database(t)
		return openAt(t, url), openAt(t, url)
	})
}

func BenchmarkStore(b *testing.B) {
	pg := server.Start(b)
	storetest.Benchmark(b, func(b *testing.B) store.Store { return openAt(b, pg.Database(b)) })
}
