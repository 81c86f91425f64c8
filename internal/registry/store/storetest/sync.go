package storetest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func syncTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"one owner holds a lease":                    testLease,
		"a lease ends by the database's clock":       testLeaseEnds,
		"the state of a synchronization is recorded": testSync,
		"a secret is made once":                      testSecret,
	}
}

func testLease(t *testing.T, first, second store.Store) {
	acquire := func(st store.Store, source, owner string, want bool) {
		t.Helper()
		if ok, err := st.Acquire(t.Context(), source, owner, time.Hour); ok != want || err != nil {
			t.Errorf("%s gets the lease on %s: %v, %v", owner, source, ok, err)
		}
	}
	release := func(st store.Store, owner string) {
		t.Helper()
		if err := st.Release(t.Context(), source, owner); err != nil {
			t.Error(err)
		}
	}
	release(first, "a") // not held is no error
	acquire(first, source, "a", true)
	acquire(first, source, "a", true)
	acquire(second, source, "b", false)
	acquire(second, "other", "b", true)
	release(second, "b") // of another owner
	acquire(second, source, "b", false)
	release(second, "a")
	acquire(second, source, "b", true)
	acquire(first, source, "a", false)
	if _, err := first.Acquire(t.Context(), source, "", time.Hour); err == nil {
		t.Error("nobody gets a lease")
	}
}

func testLeaseEnds(t *testing.T, first, second store.Store) {
	const lasts = 400 * time.Millisecond
	began := time.Now()
	if ok, err := first.Acquire(t.Context(), source, "a", lasts); !ok || err != nil {
		t.Fatal(ok, err)
	}
	eventually(t, "the lease ends", func() bool {
		ok, err := second.Acquire(t.Context(), source, "b", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
	// SQLite's clock has milliseconds.
	if held := time.Since(began); held < lasts-2*time.Millisecond {
		t.Errorf("a lease of %s ended after %s", lasts, held)
	}
	if ok, err := first.Acquire(t.Context(), source, "a", lasts); ok || err != nil {
		t.Errorf("the lease is taken from its holder: %v, %v", ok, err)
	}
	// A lease that is prolonged in time does not expire.
	if ok, err := first.Acquire(t.Context(), "other", "a", time.Millisecond); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := first.Acquire(t.Context(), "other", "a", time.Hour); !ok || err != nil {
		t.Errorf("the lease is not prolonged: %v, %v", ok, err)
	}
	for prolonged := time.Now(); time.Since(prolonged) < 10*time.Millisecond; {
		if ok, err := second.Acquire(t.Context(), "other", "b", time.Hour); ok || err != nil {
			t.Fatalf("a lease that was prolonged is given to another: %v, %v", ok, err)
		}
	}
}

func testSync(t *testing.T, first, second store.Store) {
	lease(t, first)
	state := store.Sync{
		Source: source, Phase: "failed", LastAttempt: noon(), Failures: 3,
		Error: "cannot fetch: \x00 \xff ü", Servers: 5, Versions: 9, Malformed: 2, Others: 3, LeftOut: "version \"1/0\" \x00", Digest: "d",
	}
	if err := first.SetSync(t.Context(), owner, state); err != nil {
		t.Fatal(err)
	}
	got, err := second.Syncs(t.Context(), []string{"never", source, "never"})
	if err != nil {
		t.Fatal(err)
	}
	state.Error = "cannot fetch: \uFFFD \uFFFD ü" // which no database can store
	state.LeftOut = "version \"1/0\" \uFFFD"
	same(t, "states", []store.Sync{{Source: "never"}, state, {Source: "never"}}, got)
	state = store.Sync{Source: source, Phase: "complete", LastAttempt: noon(), LastSuccess: noon().Add(time.Second)}
	if err := second.SetSync(t.Context(), owner, state); err != nil {
		t.Fatal(err)
	}
	if got, err = first.Syncs(t.Context(), []string{source}); err != nil {
		t.Fatal(err)
	}
	same(t, "the state after", []store.Sync{state}, got)
}

func testSecret(t *testing.T, first, second store.Store) {
	want := []byte{0, 1, 255, 0, '\n'}
	got, err := first.Secret(t.Context(), "key", func() ([]byte, error) { return bytes.Clone(want), nil })
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	never := func() ([]byte, error) {
		t.Error("a secret is made again")
		return nil, errors.New("never")
	}
	for _, st := range []store.Store{first, second} {
		if got, err := st.Secret(t.Context(), "key", never); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
	}
	failed := errors.New("no randomness")
	_, err = first.Secret(t.Context(), "other", func() ([]byte, error) { return nil, failed })
	is(t, err, failed)
	if _, err = first.Secret(t.Context(), "other", func() ([]byte, error) { return nil, nil }); err == nil {
		t.Error("an empty secret is kept")
	}
	// Two stores that create it at the same time receive one value.
	var others []byte
	got, err = first.Secret(t.Context(), "race", func() ([]byte, error) {
		others, err = second.Secret(t.Context(), "race", func() ([]byte, error) { return []byte("second"), nil })
		return []byte("first"), err
	})
	if err != nil || string(got) != "second" || string(others) != "second" {
		t.Errorf("the secrets are %q and %q: %v", got, others, err)
	}
}
