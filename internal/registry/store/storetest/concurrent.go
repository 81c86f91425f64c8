package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func concurrencyTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"no update is lost":                        testNoLostUpdate,
		"one of many that add a version adds it":   testInsertRace,
		"readers who follow the changes miss none": testFollow,
		"one of many gets the lease":               testLeaseRace,
		"a source is made once":                    testSourceRace,
		"all who ask for a secret get the same":    testSecretRace,
	}
}

// together runs f n times concurrently, on alternating stores, and waits.
func together(first, second store.Store, n int, f func(i int, st store.Store)) {
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		st := first
		if i%2 == 1 {
			st = second
		}
		wait.Go(func() {
			<-start
			f(i, st)
		})
	}
	close(start)
	wait.Wait()
}

func testNoLostUpdate(t *testing.T, first, second store.Store) {
	for _, version := range []string{"1", "2"} {
		v := makeVersion("a", version)
		v.StatusMessage = "0"
		insert(t, first, v)
	}
	increment := func(v *store.Version) error {
		n, err := strconv.Atoi(v.StatusMessage)
		v.StatusMessage = strconv.Itoa(n + 1)
		v.Document = []byte(v.StatusMessage)
		return err
	}
	before := revisionOf(t, first, source)
	const workers, rounds = 6, 10
	together(first, second, workers, func(i int, st store.Store) {
		for range rounds {
			var err error
			if i < 2 {
				_, err = st.UpdateAll(t.Context(), source, "a", increment)
			} else {
				_, err = st.Update(t.Context(), source, "a", "1", increment)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	got := all(t, first, source)
	for key, want := range map[string]string{"a 1": strconv.Itoa(workers * rounds), "a 2": strconv.Itoa(2 * rounds)} {
		if v := got[key]; v.StatusMessage != want || string(v.Document) != want {
			t.Errorf("%s was incremented to %s, %s, not %s", key, v.StatusMessage, v.Document, want)
		}
	}
	if after := revisionOf(t, second, source); after.Number != before.Number+workers*rounds {
		t.Errorf("%d changes lead from %+v to %+v", workers*rounds, before, after)
	}
}

func testInsertRace(t *testing.T, first, second store.Store) {
	var added atomic.Int32
	together(first, second, 8, func(_ int, st store.Store) {
		for n := range 5 {
			_, err := st.Insert(t.Context(), makeVersion("a", fmt.Sprint(n)))
			if err == nil {
				added.Add(1)
			} else {
				is(t, err, store.ErrExists)
			}
		}
	})
	if added.Load() != 5 {
		t.Errorf("5 versions were added %d times", added.Load())
	}
}

// A reader that reads only later changes ends up with the stored versions, in whatever
// order the writers write.
func testFollow(t *testing.T, first, second store.Store) {
	lease(t, first)
	const rounds = 25
	type reader struct {
		at    store.Revision
		known map[int64]store.Head
	}
	follow := func(st store.Store, r *reader) {
		next, err := st.Changes(t.Context(), source, r.at.Number, func(h store.Head) error {
			r.known[h.ID] = h
			return nil
		})
		if err != nil {
			t.Error(err)
			return
		}
		if next.Number < r.at.Number || r.at.Epoch != "" && next.Epoch != r.at.Epoch {
			t.Errorf("revision %+v follows %+v", next, r.at)
		}
		r.at = next
	}
	var writers sync.WaitGroup
	done := make(chan struct{})
	readers := []*reader{{known: map[int64]store.Head{}}, {known: map[int64]store.Head{}}}
	writers.Go(func() {
		together(first, second, 5, func(i int, st store.Store) {
			for n := range rounds {
				var err error
				switch i {
				case 4:
					// The first server holds the lease, through either store.
					listed := []store.Version{makeVersion("a", fmt.Sprint(n)), makeVersion("listed", fmt.Sprint(n%3))}
					_, err = st.Replace(t.Context(), source, owner, listed, store.Sync{Source: source})
				case 3:
					_, err = st.Insert(t.Context(), makeVersion("b", fmt.Sprint(n)))
				default:
					_, err = st.Insert(t.Context(), makeVersion(fmt.Sprint("c", i), fmt.Sprint(n)))
					if err == nil {
						_, err = st.UpdateAll(t.Context(), source, fmt.Sprint("c", i), func(v *store.Version) error {
							v.StatusMessage = fmt.Sprint(i, n)
							return nil
						})
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		close(done)
	})
	together(first, second, len(readers), func(i int, st store.Store) {
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true // read once more
			default:
			}
			follow(st, readers[i])
		}
	})
	writers.Wait()
	at, want := changes(t, first, source, 0)
	for _, r := range readers {
		same(t, "what a reader that followed knows", want, r.known)
		same(t, "how far it is", at, r.at)
	}
}

func testLeaseRace(t *testing.T, first, second store.Store) {
	var held atomic.Int32
	together(first, second, 8, func(i int, st store.Store) {
		ok, err := st.Acquire(t.Context(), source, fmt.Sprint("owner", i), 1<<40)
		if err != nil {
			t.Error(err)
		}
		if ok {
			held.Add(1)
		}
	})
	if held.Load() != 1 {
		t.Errorf("%d hold the lease", held.Load())
	}
}

func testSourceRace(t *testing.T, first, second store.Store) {
	got := make([]store.Revision, 8)
	together(first, second, len(got), func(i int, st store.Store) {
		sources := []string{source, "x", "y"}
		if i%4 > 1 {
			slices.Reverse(sources)
		}
		revisions, err := st.Revisions(t.Context(), sources)
		if err != nil {
			t.Error(err)
			return
		}
		got[i] = revisions[slices.Index(sources, source)]
	})
	for _, r := range got {
		same(t, "revision", got[0], r)
	}
}

func testSecretRace(t *testing.T, first, second store.Store) {
	got := make([]string, 8)
	together(first, second, len(got), func(i int, st store.Store) {
		secret, err := st.Secret(t.Context(), "key", func() ([]byte, error) { return fmt.Appendf(nil, "made by %d", i), nil })
		if err != nil {
			t.Error(err)
		}
		got[i] = string(secret)
	})
	for _, secret := range got {
		same(t, "secret", got[0], secret)
	}
}
