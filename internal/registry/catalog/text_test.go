package catalog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// A search that leaves out what does not have the rarest word finds what one that
// looks at everything finds.
func TestASearchFindsWhatLookingAtEverythingFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"weather maps", "weather", "mail box", "mailbox maps", "", "übersetzung maps", "a"}
	words := [][]string{{"weather"}, {"map", "mail"}, {"a"}, {"absent"}, {"weather", "absent"}, {"ü"}, {"box"}, {"maps", "weather"}, {"weather\nmail"}}
	statuses := []string{"active", "deprecated", "deleted"}
	for range 300 {
		var v view
		for source := range 1 + random.IntN(3) {
			var entries []*entry
			for name := range 8 {
				for version := range random.IntN(4) {
					entries = append(entries, &entry{Head: store.Head{
						Source: fmt.Sprint(source), Name: fmt.Sprintf("a/%d", name), Version: fmt.Sprintf("%d.0.0", version),
						Status: statuses[random.IntN(3)], Search: texts[random.IntN(len(texts))],
					}})
				}
			}
			v = append(v, &snapshot{entries: merge(nil, entries)})
		}
		q := Query{Limit: 1 + random.IntN(4), Words: words[random.IntN(len(words))], IncludeDeleted: random.IntN(2) == 0}
		if random.IntN(2) == 0 {
			q.Version = "latest"
		}
		var want []*entry
		v.each("", nil, func(versions []*entry) bool {
			for _, e := range versions {
				if q.selects(e, q.Words) {
					want = append(want, e)
				}
			}
			return true
		})
		if diff := cmp.Diff(told(want), all(t, v, q)); diff != "" {
			t.Fatalf("%+v: %s", q, diff)
		}
	}
}
