package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func versionTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"a store that is new is empty":                           testEmpty,
		"a version comes back as it was added":                   testInsert,
		"a version is added once":                                testInsertExists,
		"a change is seen by those who know the revision before": testChanges,
		"an error of the reader ends the reading":                testChangesError,
		"sources are apart":                                      testSources,
		"documents are found by ID":                              testDocuments,
		"a version is changed":                                   testUpdate,
		"a change that fails changes nothing":                    testUpdateFails,
		"a change that changes nothing is none":                  testUpdateNothing,
		"what is not there is not changed":                       testUpdateNotFound,
		"all versions of a server change together":               testUpdateAll,
		"a store answers a ping":                                 testPing,
		"a context that ends ends the call":                      testContext,
	}
}

func testEmpty(t *testing.T, first, second store.Store) {
	want, err := first.Revisions(t.Context(), []string{"b", "a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"b", "a", "b"} {
		if r := want[i]; r.Source != name || r.Epoch == "" || r.Number != 0 || !r.At.IsZero() {
			t.Errorf("revision %d is %+v", i, r)
		}
	}
	if want[0].Epoch == want[1].Epoch || want[0] != want[2] {
		t.Errorf("epochs are not those of the sources: %+v", want)
	}
	got, err := second.Revisions(t.Context(), []string{"b", "a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "revisions seen by the other", want, got)

	revision, heads := changes(t, second, "unknown", 0)
	if len(heads) != 0 || revision.Epoch == "" {
		t.Errorf("a source that is not known has %+v at %+v", heads, revision)
	}
	same(t, "revision of a source made by reading", revision, revisionOf(t, first, "unknown"))
	none, err := first.Revisions(t.Context(), nil)
	if err != nil || len(none) != 0 {
		t.Errorf("no sources have the revisions %v, %v", none, err)
	}
}

func testInsert(t *testing.T, first, second store.Store) {
	v := makeVersion("io.example/weather", "1.0.0")
	v.StatusMessage, v.Search = "still good", "io.example/weather\nweather\ntells the weather"
	v.PublishedAt = time.Date(2025, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600)) // not whole, not UTC
	v.ID = 4711
	got := insert(t, first, v)
	if got.ID <= 0 || got.ID == 4711 {
		t.Errorf("the ID is %d, which is not the store's", got.ID)
	}
	want := v
	want.ID, want.UpdatedAt, want.PublishedAt = got.ID, got.UpdatedAt, time.Date(2025, 1, 2, 2, 4, 5, 6000, time.UTC)
	same(t, "the version returned", want, got)
	same(t, "the version read", map[string]store.Version{"io.example/weather 1.0.0": want}, all(t, second, source))

	other := insert(t, second, makeVersion("io.example/weather", "1.0.1"))
	if other.ID == got.ID {
		t.Errorf("two versions have the ID %d", got.ID)
	}
	v.Document = nil
	v.Version = "2"
	if _, err := first.Insert(t.Context(), v); err == nil {
		t.Error("a version without a document is accepted")
	}
}

func testInsertExists(t *testing.T, first, second store.Store) {
	v := makeVersion("a/b", "1")
	insert(t, first, v)
	before := revisionOf(t, first, source)
	changed := v
	changed.Document = json.RawMessage(`{}`)
	_, err := second.Insert(t.Context(), changed)
	is(t, err, store.ErrExists)
	same(t, "the revision after a refusal", before, revisionOf(t, first, source))

	_, err = first.Update(t.Context(), source, "a/b", "1", func(v *store.Version) error {
		v.Status = "deleted"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = second.Insert(t.Context(), changed)
	is(t, err, store.ErrExists)
	if got := all(t, first, source)["a/b 1"]; string(got.Document) != string(v.Document) {
		t.Errorf("a refusal has put in %s", got.Document)
	}
	// The same name and version in another source is another version.
	v.Source = "other"
	insert(t, second, v)
}

func testChanges(t *testing.T, first, second store.Store) {
	insert(t, first, makeVersion("a", "1"))
	afterA, _ := changes(t, second, source, 0)
	b := insert(t, second, makeVersion("b", "1"))
	afterB, got := changes(t, first, source, afterA.Number)
	same(t, "changes since the first", map[int64]store.Head{b.ID: b.Head}, got)
	if afterB.Number <= afterA.Number || afterB.Epoch != afterA.Epoch {
		t.Errorf("revision %+v follows %+v", afterB, afterA)
	}
	a, err := first.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
		v.StatusMessage = "changed"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	afterC, got := changes(t, second, source, afterB.Number)
	same(t, "changes since the second", map[int64]store.Head{a.ID: a.Head}, got)
	same(t, "the revision read", afterC, revisionOf(t, first, source))
	_, got = changes(t, first, source, 0)
	same(t, "all changes", map[int64]store.Head{a.ID: a.Head, b.ID: b.Head}, got)
	for _, since := range []int64{afterC.Number, afterC.Number + 1000} {
		if r, got := changes(t, first, source, since); len(got) != 0 || r != afterC {
			t.Errorf("since %d there is %v at %+v", since, got, r)
		}
	}
}

func testChangesError(t *testing.T, first, _ store.Store) {
	for i := range 50 {
		insert(t, first, makeVersion("a", fmt.Sprint(i)))
	}
	for _, want := range []error{errors.New("enough"), context.Canceled, store.ErrUnavailable} {
		calls := 0
		_, err := first.Changes(t.Context(), source, 0, func(store.Head) error {
			calls++
			return want
		})
		if err != want || calls != 1 { //nolint:errorlint // the same error, not a wrapped one
			t.Errorf("%d calls that returned %v ended with %v", calls, want, err)
		}
	}
	// The store still works.
	insert(t, first, makeVersion("a", "new"))
	if _, got := changes(t, first, source, 0); len(got) != 51 {
		t.Errorf("%d of 51 versions", len(got))
	}
}

func testSources(t *testing.T, first, second store.Store) {
	v := makeVersion("a", "1")
	insert(t, first, v)
	v.Source = "other"
	other := insert(t, first, v)
	before := revisionOf(t, second, source)
	_, err := second.UpdateAll(t.Context(), "other", "a", func(v *store.Version) error {
		v.StatusMessage = "only here"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the revision of the source that did not change", before, revisionOf(t, first, source))
	if got := all(t, first, source)["a 1"]; got.StatusMessage != "" || got.Source != source {
		t.Errorf("a change of one source is seen in another: %+v", got.Head)
	}
	if got := all(t, first, "other")["a 1"]; got.StatusMessage != "only here" || got.ID != other.ID || got.Source != "other" {
		t.Errorf("the change is not in its source: %+v", got.Head)
	}
}

func testDocuments(t *testing.T, first, second store.Store) {
	want := map[int64]json.RawMessage{}
	ids := []int64{-1, 0, 1 << 60}
	for i := range 40 {
		v := insert(t, first, makeVersion("a", fmt.Sprint(i)))
		ids = append(ids, v.ID, v.ID)
		want[v.ID] = v.Document
	}
	got, err := second.Documents(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "documents", want, got)
	many := make([]int64, 3000)
	for i := range many {
		many[i] = int64(i)
	}
	if got, err = second.Documents(t.Context(), many); err != nil || len(got) != 40 {
		t.Errorf("%d documents of 40: %v", len(got), err)
	}
	for _, none := range [][]int64{nil, {}, {1 << 60}} {
		if got, err = second.Documents(t.Context(), none); err != nil || len(got) != 0 {
			t.Errorf("documents of %v: %v, %v", none, got, err)
		}
	}
}

func testUpdate(t *testing.T, first, second store.Store) {
	before := insert(t, first, makeVersion("a", "1"))
	untouched := insert(t, first, makeVersion("a", "2"))
	later := noon().Add(time.Hour)
	got, err := second.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
		same(t, "what is to be changed", before, *v)
		v.Document, v.Search = json.RawMessage(`{"new": true}`), "new"
		v.Status, v.StatusMessage = "deprecated", "use b"
		v.UpdatedAt, v.StatusChangedAt, v.PublishedAt = later, later.Add(time.Second), later.Add(time.Minute) // the store ignores the first
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Document, want.Search = json.RawMessage(`{"new": true}`), "new"
	want.Status, want.StatusMessage = "deprecated", "use b"
	want.UpdatedAt, want.StatusChangedAt, want.PublishedAt = got.UpdatedAt, later.Add(time.Second), later.Add(time.Minute)
	same(t, "the version returned", want, got)
	same(t, "what is stored", map[string]store.Version{"a 1": want, "a 2": untouched}, all(t, first, source))
}

func testUpdateFails(t *testing.T, first, second store.Store) {
	for _, version := range []string{"1", "2"} {
		insert(t, first, makeVersion("a", version))
	}
	before, revision := all(t, first, source), revisionOf(t, first, source)
	spoil := func(v *store.Version) {
		v.Status, v.Document = "deleted", append(v.Document[:0], "{}"...)
	}
	for _, want := range []error{errors.New("no"), store.ErrExists, context.Canceled} {
		_, err := second.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
			spoil(v)
			return want
		})
		if err != want { //nolint:errorlint // the same error, not a wrapped one
			t.Errorf("the error %v came back as %v", want, err)
		}
		calls := 0
		_, err = second.UpdateAll(t.Context(), source, "a", func(v *store.Version) error {
			spoil(v)
			if calls++; calls == 2 {
				return want
			}
			return nil
		})
		if err != want { //nolint:errorlint // the same error, not a wrapped one
			t.Errorf("the error %v came back as %v", want, err)
		}
	}
	for what, change := range map[string]func(*store.Version){
		"another name":    func(v *store.Version) { v.Name = "b" },
		"another version": func(v *store.Version) { v.Version = "7" },
		"another source":  func(v *store.Version) { v.Source = "other" },
		"another ID":      func(v *store.Version) { v.ID++ },
		"no document":     func(v *store.Version) { v.Document = nil },
		"NUL":             func(v *store.Version) { v.StatusMessage = "\x00" },
	} {
		_, err := first.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
			change(v)
			return nil
		})
		if err == nil {
			t.Errorf("a change to %s is accepted", what)
		}
	}
	same(t, "what is stored", before, all(t, first, source))
	same(t, "the revision", revision, revisionOf(t, second, source))
}

func testUpdateNothing(t *testing.T, first, second store.Store) {
	want := insert(t, first, makeVersion("a", "1"))
	revision := revisionOf(t, first, source)
	got, err := second.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
		v.UpdatedAt = noon() // which the store ignores
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the version returned", want, got)
	same(t, "the revision", revision, revisionOf(t, first, source))
}

func testUpdateNotFound(t *testing.T, first, _ store.Store) {
	insert(t, first, makeVersion("a", "1"))
	never := func(*store.Version) error {
		t.Error("there is nothing to change")
		return nil
	}
	for _, key := range [][3]string{
		{source, "a", "2"}, {source, "b", "1"}, {"other", "a", "1"}, {source, "A", "1"}, {source, "a", "1 "},
		{source, "a", ""}, {source, "", "1"}, {"", "a", "1"}, {source, "a\x00", "1"}, {source, "a", "\xff"},
	} {
		_, err := first.Update(t.Context(), key[0], key[1], key[2], never)
		is(t, err, store.ErrNotFound)
	}
	for _, key := range [][2]string{{source, "b"}, {"other", "a"}, {source, ""}, {source, "%"}} {
		_, err := first.UpdateAll(t.Context(), key[0], key[1], never)
		is(t, err, store.ErrNotFound)
	}
}

func testUpdateAll(t *testing.T, first, second store.Store) {
	want := map[string]store.Version{}
	for i := range 900 { // more than fit into one statement
		v := makeVersion("a", fmt.Sprint(i))
		if i%2 == 0 {
			v.StatusMessage = "so already"
		}
		if i < 5 {
			v = insert(t, first, v)
		} else {
			continue
		}
		v.StatusMessage = "so already"
		want["a "+v.Version] = v
	}
	b := insert(t, first, makeVersion("b", "1"))
	before := revisionOf(t, first, source)
	got, err := second.UpdateAll(t.Context(), source, "a", func(v *store.Version) error {
		v.StatusMessage = "so already"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	returned := map[string]store.Version{}
	for _, v := range got {
		returned["a "+v.Version] = v
	}
	sameButTime(t, "the versions returned", want, returned)
	after, changed := changes(t, first, source, before.Number)
	if after.Number != before.Number+1 || len(changed) != 2 {
		t.Errorf("%d versions changed, from %+v to %+v", len(changed), before, after)
	}
	want["b 1"] = b
	maps.Copy(want, returned)
	same(t, "what is stored", want, all(t, first, source))
}

func testPing(t *testing.T, first, second store.Store) {
	for _, st := range []store.Store{first, second} {
		if err := st.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Ping(t.Context()); err == nil {
		t.Error("a store that is closed answers")
	}
	if err := second.Ping(t.Context()); err != nil {
		t.Errorf("closing one store has closed another: %v", err)
	}
}

func testContext(t *testing.T, first, _ store.Store) {
	insert(t, first, makeVersion("a", "1"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	change := func(v *store.Version) error {
		v.StatusMessage += "!"
		return nil
	}
	calls := map[string]func(context.Context) error{
		"Revisions": func(ctx context.Context) error { _, err := first.Revisions(ctx, []string{source}); return err },
		"Changes": func(ctx context.Context) error {
			_, err := first.Changes(ctx, source, 0, func(store.Head) error { return nil })
			return err
		},
		"Documents": func(ctx context.Context) error { _, err := first.Documents(ctx, []int64{1}); return err },
		"Insert":    func(ctx context.Context) error { _, err := first.Insert(ctx, makeVersion("b", "1")); return err },
		"Add":       func(ctx context.Context) error { _, err := first.Add(ctx, source, nil, false); return err },
		"Update":    func(ctx context.Context) error { _, err := first.Update(ctx, source, "a", "1", change); return err },
		"UpdateAll": func(ctx context.Context) error { _, err := first.UpdateAll(ctx, source, "a", change); return err },
		"Replace": func(ctx context.Context) error {
			_, err := first.Replace(ctx, source, "me", nil, store.Sync{})
			return err
		},
		"Acquire": func(ctx context.Context) error { _, err := first.Acquire(ctx, source, "me", time.Minute); return err },
		"Release": func(ctx context.Context) error { return first.Release(ctx, source, "me") },
		"Syncs":   func(ctx context.Context) error { _, err := first.Syncs(ctx, []string{source}); return err },
		"SetSync": func(ctx context.Context) error { return first.SetSync(ctx, "me", store.Sync{Source: source}) },
		"Secret": func(ctx context.Context) error {
			_, err := first.Secret(ctx, "s", func() ([]byte, error) { return []byte("s"), nil })
			return err
		},
		"Ping": func(ctx context.Context) error { return first.Ping(ctx) },
	}
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	for name, call := range calls {
		if err := call(ended); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s ended with %v", name, err)
		}
		if err := call(late); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	// Within a transaction: it is rolled back, and the next one does not wait.
	middle, cancelMiddle := context.WithCancel(t.Context())
	_, err := first.Update(middle, source, "a", "1", func(v *store.Version) error {
		cancelMiddle()
		return change(v)
	})
	is(t, err, context.Canceled)
	got, err := first.Update(t.Context(), source, "a", "1", change)
	if err != nil || got.StatusMessage != "!" {
		t.Errorf("after a call that was ended: %q, %v", got.StatusMessage, err)
	}
}
