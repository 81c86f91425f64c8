package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Benchmark measures a store with 20,000 servers of 3 versions each, which open
// returns empty.
func Benchmark(b *testing.B, open func(b *testing.B) store.Store) {
	st := open(b)
	if ok, err := st.Acquire(b.Context(), source, owner, time.Hour); !ok || err != nil {
		b.Fatal(ok, err)
	}
	versions := Large(20000)
	replace := func(b *testing.B, want store.Stats) {
		b.Helper()
		stats, err := st.Replace(b.Context(), source, owner, versions, store.Sync{Source: source})
		if err != nil || stats != want {
			b.Fatal(stats, err)
		}
	}
	began := time.Now()
	replace(b, store.Stats{Added: 60000})
	b.Logf("Replace of nothing by 60,000 versions: %s", time.Since(began).Round(time.Millisecond))

	b.Run("ReplaceUnchanged", func(b *testing.B) {
		for b.Loop() {
			replace(b, store.Stats{Unchanged: 60000})
		}
	})
	n := 0
	b.Run("Replace100Changed", func(b *testing.B) {
		for b.Loop() {
			n++
			for i := range 100 {
				versions[i*600].Document = json.RawMessage(fmt.Sprintf(`{"n": %d}`, n))
			}
			replace(b, store.Stats{Changed: 100, Unchanged: 59900})
		}
	})
	var ids []int64
	b.Run("ChangesAll", func(b *testing.B) {
		for b.Loop() {
			ids = ids[:0]
			_, err := st.Changes(b.Context(), source, 0, func(h store.Head) error {
				ids = append(ids, h.ID)
				return nil
			})
			if err != nil || len(ids) < 60000 {
				b.Fatal(len(ids), err)
			}
		}
	})
	b.Run("ChangesNone", func(b *testing.B) {
		for b.Loop() {
			if _, err := st.Changes(b.Context(), source, 1<<40, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Revisions", func(b *testing.B) {
		for b.Loop() {
			if _, err := st.Revisions(b.Context(), []string{source}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Documents30", func(b *testing.B) {
		some := make([]int64, 30)
		for i := range some {
			some[i] = ids[i*1999]
		}
		for b.Loop() {
			if got, err := st.Documents(b.Context(), some); err != nil || len(got) != 30 {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("Insert", func(b *testing.B) {
		for b.Loop() {
			n++
			v := versions[1]
			v.Source, v.Name = "managed", fmt.Sprint("new-", n)
			if _, err := st.Insert(b.Context(), v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
