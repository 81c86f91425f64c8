package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func replaceTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"a source becomes what it lists":                  testReplace,
		"what is the same keeps its times":                testReplaceSame,
		"any difference is a change":                      testReplaceDifferences,
		"what is no longer listed stays as deleted":       testTombstones,
		"times that are left out are the store's to give": testReplaceTimes,
		"a replacement needs the lease":                   testReplaceLease,
		"a list that is wrong changes nothing":            testReplaceWrong,
		"a replacement works on what others have changed": testReplaceAfterOthers,
		"a large source is replaced":                      testReplaceLarge,
	}
}

const owner = "first-server"

// lease takes the lease on the source for owner.
func lease(t *testing.T, st store.Store) {
	t.Helper()
	if ok, err := st.Acquire(t.Context(), source, owner, time.Hour); !ok || err != nil {
		t.Fatalf("the lease is not given: %v, %v", ok, err)
	}
}

func replace(t *testing.T, st store.Store, versions []store.Version) store.Stats {
	t.Helper()
	stats, err := st.Replace(t.Context(), source, owner, versions, store.Sync{Source: source, Phase: "complete", LastSuccess: noon()})
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func testReplace(t *testing.T, first, second store.Store) {
	lease(t, first)
	a, b := makeVersion("a", "1"), makeVersion("b", "1")
	state := store.Sync{
		Source: source, Phase: "complete", LastAttempt: noon(), LastSuccess: noon().Add(time.Second),
		Servers: 2, Versions: 2, Digest: "sha256:abc",
	}
	stats, err := first.Replace(t.Context(), source, owner, []store.Version{a, b}, state)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what changed", store.Stats{Added: 2}, stats)
	got := all(t, second, source)
	a.ID, b.ID = got["a 1"].ID, got["b 1"].ID
	sameButTime(t, "what is stored", map[string]store.Version{"a 1": a, "b 1": b}, got)
	if a.ID == b.ID || a.ID <= 0 || b.ID <= 0 {
		t.Errorf("the IDs are %d and %d", a.ID, b.ID)
	}
	syncs, err := second.Syncs(t.Context(), []string{source})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the state", []store.Sync{state}, syncs)

	revision := revisionOf(t, second, source)
	b.Document = json.RawMessage(`{"changed": 1}`)
	c := makeVersion("c", "1")
	stats = replace(t, first, []store.Version{c, b})
	same(t, "what changed", store.Stats{Added: 1, Changed: 1, Deleted: 1}, stats)
	after, changed := changes(t, second, source, revision.Number)
	if after.Number != revision.Number+1 || len(changed) != 3 {
		t.Errorf("%d versions changed, from %+v to %+v", len(changed), revision, after)
	}
	c.ID = all(t, second, source)["c 1"].ID
	a.Status, a.StatusChangedAt = "deleted", after.At
	sameButTime(t, "what is stored", map[string]store.Version{"a 1": a, "b 1": b, "c 1": c}, all(t, second, source))
}

func testReplaceSame(t *testing.T, first, second store.Store) {
	lease(t, first)
	v := makeVersion("a", "1")
	replace(t, first, []store.Version{v})
	want, revision := all(t, second, source), revisionOf(t, second, source)
	later := noon().Add(time.Hour)
	v.PublishedAt, v.StatusChangedAt = later, later
	stats := replace(t, first, []store.Version{v})
	same(t, "what changed", store.Stats{Unchanged: 1}, stats)
	same(t, "what is stored", want, all(t, second, source))
	same(t, "the revision", revision, revisionOf(t, second, source))
	syncs, err := second.Syncs(t.Context(), []string{source})
	if err != nil || !syncs[0].LastSuccess.Equal(noon()) {
		t.Errorf("the state is not recorded where nothing changes: %+v, %v", syncs, err)
	}
}

func testReplaceDifferences(t *testing.T, first, second store.Store) {
	lease(t, first)
	v := makeVersion("a", "1")
	replace(t, first, []store.Version{v})
	v.PublishedAt = noon().Add(-time.Hour)
	for i, change := range []func(){
		func() { v.Document = json.RawMessage(`{"name": "a"}`) },
		func() { v.Document = json.RawMessage(`{"name":  "a"}`) }, // a space
		func() { v.Status = "deprecated" },
		func() { v.StatusMessage = "use b" },
		func() { v.Search = "other words" },
		func() { v.Status = "deleted" },
		func() { v.Status, v.StatusMessage = "active", "" },
	} {
		change()
		stats := replace(t, first, []store.Version{v})
		same(t, fmt.Sprintf("what changed at %d", i), store.Stats{Changed: 1}, stats)
		v.ID = all(t, second, source)["a 1"].ID
		sameButTime(t, fmt.Sprintf("what is stored at %d", i), map[string]store.Version{"a 1": v}, all(t, second, source))
	}
}

func testTombstones(t *testing.T, first, second store.Store) {
	lease(t, first)
	var versions []store.Version
	for i := range 1000 { // more than fit into one statement
		versions = append(versions, makeVersion("a", fmt.Sprint(i)))
	}
	versions[0].Status, versions[0].StatusMessage = "deprecated", "old"
	versions[1].Status, versions[1].StatusMessage = "deleted", "withdrawn"
	replace(t, first, versions)
	before := all(t, first, source)
	stats := replace(t, first, versions[999:])
	gone := revisionOf(t, second, source).At
	// The deleted one is not changed.
	same(t, "what changed", store.Stats{Deleted: 998, Unchanged: 1}, stats)
	want := map[string]store.Version{}
	for key, v := range before {
		if v.Version != "999" && v.Version != "1" {
			v.Status, v.StatusMessage, v.UpdatedAt, v.StatusChangedAt = "deleted", "", gone, gone
		}
		want[key] = v
	}
	same(t, "what is stored", want, all(t, second, source))

	revision := revisionOf(t, second, source)
	stats = replace(t, first, versions[999:])
	same(t, "what changed at a second time", store.Stats{Unchanged: 1}, stats)
	same(t, "the revision at a second time", revision, revisionOf(t, second, source))
	// Listed again: it has the same ID.
	stats = replace(t, first, versions[998:])
	same(t, "what changed at the return", store.Stats{Changed: 1, Unchanged: 1}, stats)
	sameButTime(t, "the version that returned", before["a 998"], all(t, second, source)["a 998"])
	// A source may become empty.
	stats = replace(t, first, nil)
	same(t, "what changed at the end", store.Stats{Deleted: 2}, stats)
}

func testReplaceTimes(t *testing.T, first, second store.Store) {
	lease(t, first)
	v := makeVersion("a", "1")
	v.PublishedAt, v.StatusChangedAt = time.Time{}, time.Time{}
	// next is the version after another replacement, and its time.
	next := func() (store.Version, time.Time) {
		replace(t, first, []store.Version{v})
		return all(t, second, source)["a 1"], revisionOf(t, second, source).At
	}
	want, at := next()
	for what, got := range map[string]time.Time{"published": want.PublishedAt, "updated": want.UpdatedAt, "its status changed": want.StatusChangedAt} {
		if !got.Equal(at) || at.IsZero() {
			t.Errorf("a new version is %s at %s, which is not when it was made: %s", what, got, at)
		}
	}
	v.Document = json.RawMessage(`{}`)
	got, at := next()
	want.Document, want.UpdatedAt = v.Document, at
	same(t, "another document", want, got)

	v.Status = "deprecated"
	got, at = next()
	want.Status, want.UpdatedAt, want.StatusChangedAt = "deprecated", at, at
	same(t, "another status", want, got)
}

func testReplaceLease(t *testing.T, first, second store.Store) {
	versions := []store.Version{makeVersion("a", "1")}
	state := store.Sync{Source: source, Phase: "complete"}
	refused := func(st store.Store, owner string) {
		t.Helper()
		_, err := st.Replace(t.Context(), source, owner, versions, state)
		is(t, err, store.ErrLeaseLost)
		is(t, st.SetSync(t.Context(), owner, state), store.ErrLeaseLost)
	}
	refused(first, owner)
	lease(t, first)
	refused(second, "second-server")
	refused(second, "")
	// The lease depends on the owner, not on the connection.
	if _, err := second.Replace(t.Context(), source, owner, nil, store.Sync{Source: source}); err != nil {
		t.Error(err)
	}
	if err := first.Release(t.Context(), source, owner); err != nil {
		t.Fatal(err)
	}
	refused(first, owner)
	if got := all(t, first, source); len(got) != 0 {
		t.Errorf("who has no lease has put in %v", got)
	}
	if ok, err := first.Acquire(t.Context(), source, owner, time.Millisecond); !ok || err != nil {
		t.Fatal(ok, err)
	}
	eventually(t, "the lease ends", func() bool {
		_, err := first.Replace(t.Context(), source, owner, nil, state)
		return err != nil
	})
	refused(first, owner)
}

func testReplaceWrong(t *testing.T, first, second store.Store) {
	lease(t, first)
	replace(t, first, []store.Version{makeVersion("a", "1")})
	want, revision := all(t, second, source), revisionOf(t, second, source)
	empty, nul := makeVersion("b", "1"), makeVersion("b", "1")
	empty.Document, nul.Search = nil, "\x00"
	for what, versions := range map[string][]store.Version{
		"a version listed twice":       {makeVersion("b", "1"), makeVersion("b", "1")},
		"a version without a document": {makeVersion("c", "1"), empty},
		"a search text with NUL":       {makeVersion("c", "1"), nul},
		"a version without a name":     {makeVersion("c", "1"), makeVersion("", "1")},
	} {
		_, err := first.Replace(t.Context(), source, owner, versions, store.Sync{Source: source})
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	same(t, "what is stored", want, all(t, second, source))
	same(t, "the revision", revision, revisionOf(t, second, source))
}

func testReplaceAfterOthers(t *testing.T, first, second store.Store) {
	lease(t, first)
	insert(t, second, makeVersion("a", "1"))
	insert(t, second, makeVersion("a", "2"))
	stats := replace(t, first, []store.Version{makeVersion("a", "1"), makeVersion("a", "3")})
	same(t, "what changed", store.Stats{Added: 1, Unchanged: 1, Deleted: 1}, stats)
	_, err := second.Insert(t.Context(), makeVersion("a", "3"))
	is(t, err, store.ErrExists)
}

func testReplaceLarge(t *testing.T, first, second store.Store) {
	lease(t, first)
	versions := Large(3000)
	stats := replace(t, first, versions)
	same(t, "what changed", store.Stats{Added: 9000}, stats)
	got := all(t, second, source)
	for _, v := range versions {
		is := got[v.Name+" "+v.Version]
		if string(is.Document) != string(v.Document) || is.Search != v.Search {
			t.Fatalf("version %s of %s has the document %.100s", v.Version, v.Name, is.Document)
		}
	}
	versions[17].Document = json.RawMessage(`{"changed": true}`)
	versions = versions[:len(versions)-1]
	stats = replace(t, second, versions)
	same(t, "what changed the second time", store.Stats{Changed: 1, Deleted: 1, Unchanged: 8998}, stats)
}

// Large lists three versions each of so many servers, with documents of about
// 2 KB.
func Large(servers int) []store.Version {
	filler := make([]byte, 1800)
	for i := range filler {
		filler[i] = "abcdefghijklmnopqrstuvwxyz ,.{}[]"[(i*i+i/7)%33]
	}
	versions := make([]store.Version, 0, 3*servers)
	for i := range servers {
		for j := range 3 {
			name := fmt.Sprintf("io.github.somebody%d/server-%d", i%977, i)
			v := makeVersion(name, fmt.Sprintf("1.%d.0", j))
			v.Search = name + "\nserver\ntells you what you want to know about anything, and more\ntag\nother tag"
			v.Document = fmt.Appendf(nil, `{"name": %q, "version": "1.%d.0", "filler": %q}`, name, j, filler)
			versions = append(versions, v)
		}
	}
	return versions
}
