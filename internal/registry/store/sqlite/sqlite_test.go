package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/storetest"
)

func openAt(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (first, second store.Store) {
		path := filepath.Join(t.TempDir(), "new", "registry.db")
		return openAt(t, path), openAt(t, path)
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) store.Store {
		return openAt(b, filepath.Join(b.TempDir(), "registry.db"))
	})
}
