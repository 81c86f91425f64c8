// Package storetest tests that a store.Store does what package store documents. Each
// test runs with two stores on one database, as of two servers that share it.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Run runs the suite. open returns two stores on one new database, and closes
// them with the test.
func Run(t *testing.T, open func(t *testing.T) (first, second store.Store)) {
	groups := []map[string]func(*testing.T, store.Store, store.Store){
		versionTests(), addTests(), replaceTests(), clockTests(), syncTests(), textTests(), concurrencyTests(),
	}
	for _, group := range groups {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				first, second := open(t)
				test(t, first, second)
			})
		}
	}
}

// source is the source of most tests.
const source = "default"

// noon is the time of most changes in these tests, in whole microseconds.
func noon() time.Time { return time.Date(2026, 7, 28, 12, 0, 0, 123456000, time.UTC) }

func head(name, version string) store.Head {
	return store.Head{
		Source: source, Name: name, Version: version, Status: "active",
		PublishedAt: noon(), StatusChangedAt: noon(), Search: name,
	}
}

func makeVersion(name, version string) store.Version {
	doc := fmt.Sprintf(`{"name": %q, "version": %q}`, name, version)
	return store.Version{Head: head(name, version), Document: json.RawMessage(doc)}
}

func insert(t *testing.T, st store.Store, v store.Version) store.Version {
	t.Helper()
	got, err := st.Insert(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// changes reads all changes since a revision, by ID.
func changes(t *testing.T, st store.Store, source string, since int64) (store.Revision, map[int64]store.Head) {
	t.Helper()
	got := map[int64]store.Head{}
	revision, err := st.Changes(t.Context(), source, since, func(h store.Head) error {
		if _, twice := got[h.ID]; twice {
			t.Errorf("version %d is passed twice", h.ID)
		}
		got[h.ID] = h
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return revision, got
}

// all reads all versions of a source with their documents, by name and version.
func all(t *testing.T, st store.Store, source string) map[string]store.Version {
	t.Helper()
	_, heads := changes(t, st, source, 0)
	var ids []int64
	for id := range heads {
		ids = append(ids, id)
	}
	documents, err := st.Documents(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]store.Version{}
	for id, h := range heads {
		out[h.Name+" "+h.Version] = store.Version{Head: h, Document: documents[id]}
	}
	if len(documents) != len(heads) || len(out) != len(heads) {
		t.Errorf("%d documents and %d names of %d versions", len(documents), len(out), len(heads))
	}
	return out
}

func revisionOf(t *testing.T, st store.Store, source string) store.Revision {
	t.Helper()
	got, err := st.Revisions(t.Context(), []string{source})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// sameButTime compares versions of the test with those of the store, except for the
// time of change, which the store sets.
func sameButTime(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Head{}, "UpdatedAt")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got the error %v, want %v", err, want)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !f() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
