package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func addTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"versions are added together":                    testAdd,
		"what is there stays unless it is replaced":      testAddReplaces,
		"versions of which one is wrong are not added":   testAddWrong,
		"many add the same versions and one adds each":   testAddRace,
		"more versions than a statement takes are added": testAddMany,
	}
}

func add(t *testing.T, st store.Store, versions []store.Version, replace bool) []store.Outcome {
	t.Helper()
	got, err := st.Add(t.Context(), source, versions, replace)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func testAdd(t *testing.T, first, second store.Store) {
	a, b := makeVersion("a", "1"), makeVersion("b", "1")
	a.Source = "the source is the argument"
	before := revisionOf(t, second, source)
	same(t, "what became of them", []store.Outcome{store.Added, store.Added}, add(t, first, []store.Version{a, b}, false))
	after := revisionOf(t, second, source)
	if after.Number != before.Number+1 {
		t.Errorf("two versions lead from %+v to %+v", before, after)
	}
	got := all(t, second, source)
	a.Source, a.ID, b.ID, a.UpdatedAt, b.UpdatedAt = source, got["a 1"].ID, got["b 1"].ID, after.At, after.At
	same(t, "what is stored", map[string]store.Version{"a 1": a, "b 1": b}, got)

	// Again, as after an interruption: nothing changes.
	c := makeVersion("c", "1")
	same(t, "what became of them", []store.Outcome{store.Same, store.Added, store.Same}, add(t, second, []store.Version{b, c, a}, true))
	same(t, "what became of them", []store.Outcome{store.Same, store.Same}, add(t, second, []store.Version{a, b}, true))
	got = all(t, first, source)
	delete(got, "c 1")
	same(t, "what was there", map[string]store.Version{"a 1": a, "b 1": b}, got)
	none := revisionOf(t, first, source)
	same(t, "what became of none", []store.Outcome{}, add(t, first, nil, true))
	same(t, "the revision after nothing", none, revisionOf(t, first, source))
}

func testAddReplaces(t *testing.T, first, second store.Store) {
	was := insert(t, first, makeVersion("a", "1"))
	withdrawn, err := first.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
		v.Status, v.StatusMessage = "deleted", "withdrawn"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other := makeVersion("a", "1")
	other.Document, other.Search = json.RawMessage(`{"other": 1}`), "other words"
	same(t, "what became of it", []store.Outcome{store.Differs}, add(t, second, []store.Version{other}, false))
	same(t, "what is stored", withdrawn, all(t, first, source)["a 1"])

	sameDocument := makeVersion("a", "1")
	sameDocument.Search = "is not looked at"
	same(t, "what became of it", []store.Outcome{store.Same}, add(t, second, []store.Version{sameDocument}, true))

	same(t, "what became of it", []store.Outcome{store.Replaced}, add(t, second, []store.Version{other}, true))
	want := withdrawn // status and times stay
	want.Document, want.Search = other.Document, other.Search
	got := all(t, first, source)["a 1"]
	sameButTime(t, "what is stored", want, got)
	if got.ID != was.ID || !got.UpdatedAt.After(withdrawn.UpdatedAt) {
		t.Errorf("version %d of %s became %d of %s", was.ID, withdrawn.UpdatedAt, got.ID, got.UpdatedAt)
	}
}

func testAddWrong(t *testing.T, first, second store.Store) {
	before := revisionOf(t, first, source)
	good, empty, nul := makeVersion("a", "1"), makeVersion("b", "1"), makeVersion("b", "1")
	empty.Document, nul.Name = nil, "\x00"
	for what, versions := range map[string][]store.Version{
		"a version that is given twice": {good, good},
		"one without a document":        {good, empty},
		"one with NUL in its name":      {good, nul},
	} {
		if got, err := first.Add(t.Context(), source, versions, true); err == nil {
			t.Errorf("%s is accepted: %v", what, got)
		}
	}
	if _, err := first.Add(t.Context(), "", []store.Version{good}, true); err == nil {
		t.Error("a source without a name is accepted")
	}
	same(t, "the revision", before, revisionOf(t, second, source))
}

func testAddRace(t *testing.T, first, second store.Store) {
	var versions []store.Version
	for i := range 20 {
		versions = append(versions, makeVersion("a", fmt.Sprint(i)))
	}
	outcomes := make([][]store.Outcome, 8)
	together(first, second, len(outcomes), func(i int, st store.Store) {
		var err error
		// Each begins at another version, so that they conflict.
		if outcomes[i], err = st.Add(t.Context(), source, versions[i:], false); err != nil {
			t.Error(err)
		}
	})
	added := 0
	for _, o := range outcomes {
		for _, one := range o {
			switch one {
			case store.Added:
				added++
			case store.Same:
			default:
				t.Errorf("an outcome is %d", one)
			}
		}
	}
	if added != len(versions) {
		t.Errorf("%d versions were added %d times", len(versions), added)
	}
}

func testAddMany(t *testing.T, first, second store.Store) {
	versions := Large(400)
	add(t, first, versions[:600], false)
	versions[0].Document = json.RawMessage(`{"changed": true}`)
	counts := map[store.Outcome]int{}
	for _, o := range add(t, second, versions, true) {
		counts[o]++
	}
	same(t, "what became of them", map[store.Outcome]int{store.Added: 600, store.Replaced: 1, store.Same: 599}, counts)
	got := all(t, first, source)
	for _, v := range versions {
		if is := got[v.Name+" "+v.Version]; string(is.Document) != string(v.Document) {
			t.Fatalf("version %s of %s has the document %.100s", v.Version, v.Name, is.Document)
		}
	}
}
