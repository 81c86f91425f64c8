package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// heads makes entries from "name version status" lines, published a day apart.
func heads(source string, lines ...string) *snapshot {
	var changed []*entry
	for i, line := range lines {
		f := strings.Fields(line)
		status := "active"
		if len(f) > 2 {
			status = f[2]
		}
		at := day.AddDate(0, 0, i)
		changed = append(changed, &entry{Head: store.Head{
			ID: int64(i + 1), Source: source, Name: f[0], Version: f[1], Status: status, PublishedAt: at, UpdatedAt: at, Search: strings.ToLower(f[0]),
		}})
	}
	return &snapshot{Revision: store.Revision{Source: source}, entries: merge(nil, changed)}
}

// told writes entries as "source name version", a star at the latest.
func told(entries []*entry) []string {
	out := []string{}
	for _, e := range entries {
		star := ""
		if e.latest {
			star = "*"
		}
		out = append(out, e.Source+" "+e.Name+" "+e.Version+star)
	}
	return out
}

func all(t *testing.T, v view, q Query) []string {
	t.Helper()
	out := []string{}
	for range 1000 {
		page, next, err := v.list(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > q.Limit {
			t.Fatalf("a page of %d, and the limit is %d", len(page), q.Limit)
		}
		out = append(out, told(page)...)
		if next == "" {
			return out
		}
		q.Cursor = next
	}
	t.Fatal("the list has no end")
	return nil
}

func TestLatest_SemanticVersioning(t *testing.T) {
	tests := []struct {
		name string
		have []string
		want string // the latest
	}{
		{"not by text", []string{"a/x 9.0.0", "a/x 10.0.0", "a/x 2.0.0"}, "10.0.0"},
		{"a release after its candidates", []string{"a/x 1.0.0", "a/x 1.0.0-rc.2"}, "1.0.0"},
		{"a semantic version before any other", []string{"a/x 0.0.1", "a/x 2026-11"}, "0.0.1"},
		{"others by the time of publication", []string{"a/x beta", "a/x alpha"}, "alpha"},
		{"not one that is deleted", []string{"a/x 1.0.0", "a/x 2.0.0 deleted"}, "1.0.0"},
		{"a deleted one if there is no other", []string{"a/x 1.0.0 deleted", "a/x 2.0.0 deleted"}, "2.0.0"},
		{"deprecated counts", []string{"a/x 1.0.0", "a/x 2.0.0 deprecated"}, "2.0.0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var latest []string
			for _, e := range heads("s", test.have...).entries {
				if e.latest {
					latest = append(latest, e.Version)
				}
			}
			if diff := cmp.Diff([]string{test.want}, latest); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegistry_SourceOrder(t *testing.T) {
	tests := []struct {
		name          string
		first, second []string
		deleted       bool
		want          []string
	}{
		{"both", []string{"a/x 1.0.0"}, []string{"a/x 2.0.0", "a/y 1.0.0"}, false, []string{"1 a/x 1.0.0*", "2 a/y 1.0.0*"}},
		{"a smaller version in a later source wins nothing", []string{"a/x 2.0.0"}, []string{"a/x 1.0.0"}, false, []string{"1 a/x 2.0.0*"}},
		{"deleted in the first, so from the second", []string{"a/x 1.0.0 deleted"}, []string{"a/x 2.0.0"}, false, []string{"2 a/x 2.0.0*"}},
		{"one live version is enough", []string{"a/x 1.0.0 deleted", "a/x 1.1.0"}, []string{"a/x 2.0.0"}, true, []string{"1 a/x 1.0.0", "1 a/x 1.1.0*"}},
		{"deleted everywhere, and asked for", []string{"a/x 1.0.0 deleted"}, []string{"a/x 2.0.0 deleted"}, true, []string{"1 a/x 1.0.0*"}},
		{"deleted everywhere", []string{"a/x 1.0.0 deleted"}, []string{"a/x 2.0.0 deleted"}, false, []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := view{heads("1", test.first...), heads("2", test.second...)}
			for limit := 1; limit < 4; limit++ {
				if diff := cmp.Diff(test.want, all(t, v, Query{Limit: limit, IncludeDeleted: test.deleted})); diff != "" {
					t.Errorf("in pages of %d: %s", limit, diff)
				}
			}
		})
	}
}

func TestList_Conditions(t *testing.T) {
	v := view{heads("s", "a/git-x 1.0.0", "a/git-x 2.0.0", "b/files 1.0.0", "b/git-y 1.0.0 deleted")}
	tests := []struct {
		name string
		q    Query
		want []string
	}{
		{"latest", Query{Version: "latest"}, []string{"s a/git-x 2.0.0*", "s b/files 1.0.0*"}},
		{"one version", Query{Version: "1.0.0"}, []string{"s a/git-x 1.0.0", "s b/files 1.0.0*"}},
		{"words in any case", Query{Words: []string{"GIT", "x"}}, []string{"s a/git-x 1.0.0", "s a/git-x 2.0.0*"}},
		{"no pattern characters", Query{Words: []string{"%"}}, []string{}},
		{"changed after, not at", Query{UpdatedSince: day.AddDate(0, 0, 2), IncludeDeleted: true, until: day.AddDate(1, 0, 0)}, []string{"s b/git-y 1.0.0*"}},
		{"changed up to the horizon", Query{UpdatedSince: day, IncludeDeleted: true, until: day.AddDate(0, 0, 2)}, []string{"s a/git-x 2.0.0*", "s b/files 1.0.0*"}},
		{"changed, whatever the horizon, when that is not asked", Query{Version: "latest", until: day}, []string{"s a/git-x 2.0.0*", "s b/files 1.0.0*"}},
		{"words and latest", Query{Words: []string{"git"}, Version: "latest"}, []string{"s a/git-x 2.0.0*"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.q.Limit = 2
			if diff := cmp.Diff(test.want, all(t, v, test.q)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestList_NoCursorToEmptyPage(t *testing.T) {
	v := view{heads("s", "a/x 1.0.0", "a/y 1.0.0")}
	if page, next, _ := v.list(Query{Limit: 2}); len(page) != 2 || next != "" {
		t.Errorf("%d servers, cursor %q", len(page), next)
	}
}

func TestList_ForeignCursor(t *testing.T) {
	for _, cursor := range []string{"x", "!!!!", "YQ", "YS94CjEuMC4wCg", "Cg", strings.Repeat("A", 2000), position{name: "a"}.cursor(), position{name: "../x", version: "1"}.cursor(),
		position{name: "a/x", version: "1\nsoon"}.cursor(), position{name: "a/x", version: "1\n2\n3"}.cursor()} {
		if _, err := parseCursor(cursor); err == nil {
			t.Errorf("%q was accepted", cursor)
		}
	}
	for _, want := range []position{{name: "a/x", version: "1.0.0"}, {name: "a/x", version: "1.0.0", until: day}} {
		if got, err := parseCursor(want.cursor()); err != nil || got != want {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// What changes while the pages are read is left for the next time, or the reader
// would take its time for the last one seen and miss what came before it in a page
// that was read already.
func TestList_PagesShareBound(t *testing.T) {
	v := view{heads("s", "a/a 1.0.0", "a/b 1.0.0", "a/c 1.0.0")}
	q := Query{Limit: 1, UpdatedSince: day.Add(-1), until: day.AddDate(0, 0, 1)}
	_, next, err := v.list(q)
	if err != nil {
		t.Fatal(err)
	}
	q.Cursor, q.until = next, day.AddDate(1, 0, 0)
	if diff := cmp.Diff([]string{"s a/b 1.0.0*"}, all(t, v, q)); diff != "" {
		t.Error(diff)
	}
	// No further than the time up to which all changes are visible, for any cursor.
	q.Cursor, q.until = position{name: "a/a", version: "1.0.0", until: day.AddDate(9, 0, 0)}.cursor(), day.AddDate(0, 0, 1)
	if diff := cmp.Diff([]string{"s a/b 1.0.0*"}, all(t, v, q)); diff != "" {
		t.Error(diff)
	}
}

// Bringing a snapshot up to date in any number of steps gives what reading it at
// once would.
func TestIndex_Incremental(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		final := map[string]*entry{}
		var steps []*entry
		for i := range 60 {
			e := &entry{Head: store.Head{
				Source: "s", Name: fmt.Sprintf("a/%d", random.IntN(6)), Version: fmt.Sprintf("%d.0.0", random.IntN(4)),
				Status: []string{"active", "deleted"}[random.IntN(2)], UpdatedAt: day.AddDate(0, 0, i),
			}}
			final[e.Name+e.Version] = e
			steps = append(steps, e)
		}
		var once, stepped []*entry
		for _, e := range final {
			copied := *e
			once = append(once, &copied)
		}
		once = merge(nil, once)
		for len(steps) > 0 {
			batch := map[string]*entry{}
			for range min(1+random.IntN(5), len(steps)) {
				copied := *steps[0]
				batch[copied.Name+copied.Version], steps = &copied, steps[1:]
			}
			var changed []*entry
			for _, e := range batch {
				changed = append(changed, e)
			}
			stepped = merge(stepped, changed)
		}
		if diff := cmp.Diff(told(once), told(stepped)); diff != "" {
			t.Fatal(diff)
		}
		if !slices.IsSortedFunc(stepped, order) {
			t.Fatal("not in order")
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(position{name: "a/x", version: "1.0.0", until: day}.cursor())
	v := view{heads("s", "a/x 1.0.0", "a/y 1.0.0")}
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, since := range []time.Time{{}, day} {
			page, _, err := v.list(Query{Cursor: cursor, Limit: 10, UpdatedSince: since, until: day.AddDate(1, 0, 0)})
			if err != nil && len(page) > 0 {
				t.Error("a page beside an error")
			}
		}
	})
}

func BenchmarkSearchOfNothingIn60000Versions(b *testing.B) {
	var lines []string
	for i := range 20_000 {
		for j := range 3 {
			lines = append(lines, fmt.Sprintf("io.github.somebody-%d/server-for-something-%d %d.0.0", i%997, i, j))
		}
	}
	v := view{heads("s", lines...)}
	for b.Loop() {
		if page, _, err := v.list(Query{Limit: 30, Words: []string{"absent"}}); err != nil || len(page) != 0 {
			b.Fatal(len(page), err)
		}
	}
}

func BenchmarkPageInTheMiddle(b *testing.B) {
	var lines []string
	for i := range 20_000 {
		for j := range 3 {
			lines = append(lines, fmt.Sprintf("io.github.somebody-%d/server-for-something-%d %d.0.0", i%997, i, j))
		}
	}
	v := view{heads("s", lines...)}
	q := Query{Limit: 30, Cursor: position{name: "io.github.somebody-5/x", version: "0"}.cursor()}
	for b.Loop() {
		if page, _, err := v.list(q); err != nil || len(page) != 30 {
			b.Fatal(len(page), err)
		}
	}
}

// A search is a filter and an order: its pages together are all matches, best
// first, whatever the size of a page.
func TestSearch_Pages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"a/github\n\nx", "io.github.b/x\n\nnotes", "c/x\ngithub\nx", "d/x\nnotes for github\nx", "e/x\n\nx\ngithub", "f/x\n\nuses github", "g/x\n\nx", ""}
	queries := [][]string{{"GitHub"}, {"github", "x"}, {"absent"}, {"x"}}
	for range 200 {
		var v view
		for source := range 1 + random.IntN(3) {
			var entries []*entry
			for name := range 8 {
				for version := range random.IntN(4) {
					entries = append(entries, &entry{Head: store.Head{
						Source: fmt.Sprint(source), Name: fmt.Sprintf("a/%d", name), Version: fmt.Sprintf("%d.0.0", version),
						Status: []string{"active", "deprecated", "deleted"}[random.IntN(3)], Search: texts[random.IntN(len(texts))],
					}})
				}
			}
			v = append(v, &snapshot{entries: merge(nil, entries)})
		}
		q := Query{Limit: 1 + random.IntN(4), Words: queries[random.IntN(len(queries))], IncludeDeleted: random.IntN(2) == 0}
		if random.IntN(2) == 0 {
			q.Version = "latest"
		}
		var want []scored
		words := registry.SearchWords(strings.Join(q.Words, " "))
		v.each("", func(versions []*entry) bool {
			for _, e := range versions {
				if score := registry.Score(e.Search, words); score > 0 && q.selects(e) {
					want = append(want, scored{e, score})
				}
			}
			return true
		})
		slices.SortFunc(want, scored.compare)
		sorted := make([]*entry, len(want))
		for i, s := range want {
			sorted[i] = s.entry
		}
		if diff := cmp.Diff(told(sorted), all(t, v, q)); diff != "" {
			t.Fatalf("%+v: %s", q, diff)
		}
	}
}

func TestSearch_CursorOfList(t *testing.T) {
	v := view{heads("s", "a/b 1.0.0", "a/b 2.0.0")}
	search, list := Query{Limit: 1, Words: []string{"a"}}, Query{Limit: 1}
	_, ofSearch, err := v.list(search)
	if err != nil {
		t.Fatal(err)
	}
	_, ofList, err := v.list(list)
	if err != nil {
		t.Fatal(err)
	}
	search.Cursor, list.Cursor = ofList, ofSearch
	for _, q := range []Query{search, list} {
		if _, _, err := v.list(q); !errors.Is(err, ErrCursor) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
