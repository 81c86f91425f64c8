package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func clockTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"each change is later than all before it":             testLater,
		"readers who follow the times miss none":              testFollowTimes,
		"a change that changes nothing moves no clock":        testClockRests,
		"the times that a caller leaves out are the change's": testTimesLeftOut,
	}
}

// Changes of all kinds and sources, through both stores.
func testLater(t *testing.T, first, second store.Store) {
	lease(t, first)
	var last time.Time
	for i := range 30 {
		st, other := first, second
		if i%2 == 1 {
			st, other = second, first
		}
		v := makeVersion("a", fmt.Sprint(i))
		v.Source = []string{source, "other"}[i/2%2]
		v = insert(t, st, v)
		v, err := other.Update(t.Context(), v.Source, "a", v.Version, func(u *store.Version) error {
			if !u.UpdatedAt.After(last) {
				t.Errorf("an addition of %s comes after %s", u.UpdatedAt, last)
			}
			last = u.UpdatedAt
			u.StatusMessage = "changed"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !v.UpdatedAt.After(last) {
			t.Errorf("a change of %s comes after %s", v.UpdatedAt, last)
		}
		last = v.UpdatedAt
		if at := revisionOf(t, other, v.Source).At; v.Source == source && !at.Equal(last) {
			t.Errorf("the source says %s, and its change %s", at, last)
		}
	}
	if now := time.Now(); last.Before(now.Add(-time.Hour)) || last.After(now.Add(time.Hour)) {
		t.Errorf("the last change is of %s", last)
	}
	replace(t, second, nil)
	for _, v := range all(t, first, source) {
		if !v.UpdatedAt.After(last) {
			t.Errorf("a replacement of %s comes after %s", v.UpdatedAt, last)
		}
	}
}

func testClockRests(t *testing.T, first, second store.Store) {
	lease(t, first)
	v := makeVersion("a", "1")
	replace(t, first, []store.Version{v})
	before := revisionOf(t, second, source)
	replace(t, first, []store.Version{v})
	add(t, second, []store.Version{v}, true)
	if _, err := first.UpdateAll(t.Context(), source, "a", func(*store.Version) error { return nil }); err != nil {
		t.Fatal(err)
	}
	same(t, "the revision", before, revisionOf(t, second, source))
}

func testTimesLeftOut(t *testing.T, first, second store.Store) {
	v := makeVersion("a", "1")
	v.PublishedAt, v.StatusChangedAt, v.UpdatedAt = time.Time{}, time.Time{}, noon()
	got := insert(t, first, v)
	at := revisionOf(t, second, source).At
	want := v
	want.ID, want.PublishedAt, want.StatusChangedAt, want.UpdatedAt = got.ID, at, at, at
	same(t, "a new version", want, got)
	got, err := second.Update(t.Context(), source, "a", "1", func(v *store.Version) error {
		v.Status, v.StatusChangedAt = "deprecated", time.Time{}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	at = revisionOf(t, first, source).At
	want.Status, want.StatusChangedAt, want.UpdatedAt = "deprecated", at, at
	same(t, "the version returned", want, got)
	same(t, "the version read", want, all(t, first, source)["a 1"])
}

// A reader of several sources that reads the changes after the latest time it has read
// ends up with all versions, while many writers write. It reads only up to the latest
// change of Revisions before the read: later ones may have earlier changes beside them
// that are not visible yet.
func testFollowTimes(t *testing.T, first, second store.Store) {
	lease(t, first)
	const writers, rounds = 6, 25
	sources := []string{source, "b", "c"}
	var written atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(first, second, writers, func(i int, st store.Store) {
			for n := range rounds {
				v := makeVersion(fmt.Sprint("w", i), fmt.Sprint(n))
				v.Source = sources[(i+n)%len(sources)]
				var err error
				if i == 0 {
					v.Source = source
					_, err = st.Add(t.Context(), source, []store.Version{v, makeVersion("more", fmt.Sprint(n))}, false)
					written.Add(1)
				} else {
					_, err = st.Insert(t.Context(), v)
				}
				if err != nil {
					t.Error(err)
				}
				written.Add(1)
			}
		})
	}()
	seen := map[string]bool{}
	var last time.Time
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true // read once more
		default:
		}
		revisions, err := second.Revisions(t.Context(), sources)
		if err != nil {
			t.Fatal(err)
		}
		horizon := last
		for _, r := range revisions {
			if r.At.After(horizon) {
				horizon = r.At
			}
		}
		for _, s := range sources {
			_, heads := changes(t, second, s, 0)
			for _, h := range heads {
				key := h.Source + " " + h.Name + " " + h.Version
				if !h.UpdatedAt.After(last) || h.UpdatedAt.After(horizon) {
					continue
				}
				if seen[key] {
					t.Errorf("%s is seen twice", key)
				}
				seen[key] = true
			}
		}
		last = horizon
	}
	if len(seen) != int(written.Load()) {
		t.Errorf("of %d versions the reader saw %d", written.Load(), len(seen))
	}
}
