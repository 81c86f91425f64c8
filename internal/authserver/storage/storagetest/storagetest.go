// Package storagetest has the tests that every [storage.Store] passes. A caller of Run adds
// what is special about its store: bounds, connections, outages.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
)

const (
	long  = time.Hour
	short = 100 * time.Millisecond
	// patience bounds the wait for something that takes about short.
	patience = 30 * time.Second
	callers  = 50
)

// Run tests the store that open returns. It calls open once for each test, with the test's
// own t; each store must be empty, or share nothing with the others.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s storage.Store)
	}{
		{"Get returns what Put stored", testPut},
		{"a store keeps its own bytes", testOwnBytes},
		{"any byte may be in a value", testBytes},
		{"keys are apart", testKeys},
		{"a value expires", testExpiry},
		{"a write sets the lifetime anew", testLifetime},
		{"a lifetime must be positive", testNoLifetime},
		{"Swap stores only in place of the expected value", testSwap},
		{"Swap has one winner", testSwapWinner},
		{"Swap loses no update", testSwapCounter},
		{"Take returns a value once", testTake},
		{"Take has one winner", testTakeWinner},
		{"Delete removes a value", testDelete},
		{"a lease is held once", testLease},
		{"a lease has one winner", testLeaseWinner},
		{"a lease expires, and its release removes no other", testLeaseExpiry},
		{"a lease and a value of one key are apart", testLeaseAndValue},
		{"a canceled context", testCanceled},
		{"after Close", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { s.Close() })
			test.run(t, s)
		})
	}
}

func testPut(t *testing.T, s storage.Store) {
	missing(t, s, "a")
	for _, value := range []string{"one", "two", "", "three"} {
		put(t, s, "a", value, long)
		has(t, s, "a", value)
		has(t, s, "a", value)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

func testOwnBytes(t *testing.T, s storage.Store) {
	value := []byte("first")
	if err := s.Put(t.Context(), "a", value, long); err != nil {
		t.Fatal(err)
	}
	value[0] = 'X'
	got, err := s.Get(t.Context(), "a")
	if err != nil || string(got) != "first" {
		t.Fatalf("got %q, %v", got, err)
	}
	got[0] = 'X'
	has(t, s, "a", "first")
}

func testBytes(t *testing.T, s storage.Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	large := bytes.Repeat(all, 512) // 128 KiB
	for i, value := range [][]byte{all, large, []byte("\r\n$-1\r\n"), {0}, {}} {
		key := fmt.Sprintf("bytes %d: *{}\r\n\x00é", i)
		put(t, s, key, string(value), long)
		has(t, s, key, string(value))
		if err := s.Swap(t.Context(), key, value, large, long); err != nil {
			t.Errorf("Swap of value %d: %v", i, err)
		}
		if got, err := s.Take(t.Context(), key); err != nil || !bytes.Equal(got, large) {
			t.Errorf("Take of value %d: %d bytes, %v", i, len(got), err)
		}
	}
}

func testKeys(t *testing.T, s storage.Store) {
	keys := []string{"a", "a:", "a:b", "b", "A", "lease:a", "{a}b", "{a}c", ""}
	for _, key := range keys {
		put(t, s, key, "value of "+key, long)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	missing(t, s, "a")
	for _, key := range keys[1:] {
		has(t, s, key, "value of "+key)
	}
}

func testExpiry(t *testing.T, s storage.Store) {
	put(t, s, "get", "v", short)
	put(t, s, "take", "v", short)
	put(t, s, "swap", "v", short)
	put(t, s, "long", "v", long)
	gone(t, s, "get")
	gone(t, s, "swap")
	gone(t, s, "take")
	if _, err := s.Take(t.Context(), "take"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Take of what expired: %v", err)
	}
	if err := s.Swap(t.Context(), "swap", []byte("v"), []byte("w"), long); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("Swap of what expired: %v", err)
	}
	if err := s.Swap(t.Context(), "swap", nil, []byte("w"), long); err != nil {
		t.Errorf("Swap from nil of what expired: %v", err)
	}
	has(t, s, "swap", "w")
	has(t, s, "long", "v")

	put(t, s, "least", "v", time.Nanosecond)
	gone(t, s, "least")
}

func testLifetime(t *testing.T, s storage.Store) {
	put(t, s, "longer", "v", short)
	put(t, s, "longer", "w", long)
	put(t, s, "swapped", "v", short)
	if err := s.Swap(t.Context(), "swapped", []byte("v"), []byte("w"), long); err != nil {
		t.Fatal(err)
	}
	put(t, s, "shorter", "v", long)
	put(t, s, "shorter", "w", short) // after the others: when it is gone, short is over
	gone(t, s, "shorter")
	has(t, s, "longer", "w")
	has(t, s, "swapped", "w")
}

func testNoLifetime(t *testing.T, s storage.Store) {
	for _, lifetime := range []time.Duration{0, -1, -time.Hour} {
		if err := s.Put(t.Context(), "a", []byte("v"), lifetime); err == nil {
			t.Errorf("Put with lifetime %s", lifetime)
		}
		if err := s.Swap(t.Context(), "a", nil, []byte("v"), lifetime); err == nil {
			t.Errorf("Swap with lifetime %s", lifetime)
		}
		if _, err := s.Lease(t.Context(), "a", lifetime); err == nil {
			t.Errorf("Lease with lifetime %s", lifetime)
		}
	}
	missing(t, s, "a")
}

func testSwap(t *testing.T, s storage.Store) {
	none := []byte(nil)
	for i, step := range []struct {
		old   []byte
		value string
		fails bool
	}{
		{[]byte("none"), "0", true},
		{[]byte{}, "0", true}, // there is no value; an empty one is another thing
		{none, "1", false},
		{none, "2", true},
		{[]byte("2"), "3", true},
		{[]byte("1"), "", false},
		{[]byte("1"), "4", true},
		{none, "4", true},
		{[]byte{}, "5", false},
		{[]byte("5"), "5", false},
	} {
		before, beforeErr := s.Get(t.Context(), "a")
		err := s.Swap(t.Context(), "a", step.old, []byte(step.value), long)
		switch {
		case !step.fails && err != nil:
			t.Fatalf("step %d: %v", i, err)
		case !step.fails:
			has(t, s, "a", step.value)
		case !errors.Is(err, storage.ErrChanged):
			t.Fatalf("step %d: got %v, not ErrChanged", i, err)
		case beforeErr != nil:
			missing(t, s, "a")
		default:
			has(t, s, "a", string(before))
		}
	}
}

func testSwapWinner(t *testing.T, s storage.Store) {
	for _, old := range [][]byte{nil, []byte("old")} {
		key := fmt.Sprintf("from %q", old)
		if old != nil {
			put(t, s, key, string(old), long)
		}
		var winner atomic.Int64
		race(t, storage.ErrChanged, func(i int) error {
			err := s.Swap(t.Context(), key, old, fmt.Appendf(nil, "value %d", i), long)
			if err == nil {
				winner.Store(int64(i))
			}
			return err
		})
		has(t, s, key, fmt.Sprintf("value %d", winner.Load()))
	}
}

func testSwapCounter(t *testing.T, s storage.Store) {
	const workers, rounds = 8, 10
	put(t, s, "n", "0", long)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				if err := increment(t.Context(), s); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	has(t, s, "n", fmt.Sprint(workers*rounds))
}

func increment(ctx context.Context, s storage.Store) error {
	for {
		old, err := s.Get(ctx, "n")
		if err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscan(string(old), &n); err != nil {
			return err
		}
		err = s.Swap(ctx, "n", old, fmt.Append(nil, n+1), long)
		if !errors.Is(err, storage.ErrChanged) {
			return err
		}
	}
}

func testTake(t *testing.T, s storage.Store) {
	for _, value := range []string{"v", ""} {
		put(t, s, "a", value, long)
		if got, err := s.Take(t.Context(), "a"); err != nil || string(got) != value {
			t.Fatalf("got %q, %v", got, err)
		}
		missing(t, s, "a")
		if got, err := s.Take(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) {
			t.Fatalf("the second Take: %q, %v", got, err)
		}
	}
}

func testTakeWinner(t *testing.T, s storage.Store) {
	put(t, s, "code", "grant", long)
	race(t, storage.ErrNotFound, func(int) error {
		got, err := s.Take(t.Context(), "code")
		if err == nil && string(got) != "grant" {
			t.Errorf("the winner received %q", got)
		}
		return err
	})
	missing(t, s, "code")
}

func testDelete(t *testing.T, s storage.Store) {
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Errorf("Delete of nothing: %v", err)
	}
	put(t, s, "a", "v", long)
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	missing(t, s, "a")
}

func testLease(t *testing.T, s storage.Store) {
	first := lease(t, s, "a", long)
	held(t, s, "a")
	other := lease(t, s, "b", long)
	first()
	second := lease(t, s, "a", long)
	first() // has no effect: this lease is another's now
	held(t, s, "a")
	held(t, s, "b")
	second()
	other()
	lease(t, s, "a", long)()
}

func testLeaseWinner(t *testing.T, s storage.Store) {
	race(t, storage.ErrHeld, func(int) error {
		_, err := s.Lease(t.Context(), "a", long)
		return err
	})
}

func testLeaseExpiry(t *testing.T, s storage.Store) {
	first := lease(t, s, "a", short)
	var second func()
	eventually(t, "the lease expires", func() bool {
		release, err := s.Lease(t.Context(), "a", long)
		if err != nil && !errors.Is(err, storage.ErrHeld) {
			t.Fatal(err)
		}
		second = release
		return err == nil
	})
	first()
	held(t, s, "a")
	second()
	lease(t, s, "a", long)()
}

func testLeaseAndValue(t *testing.T, s storage.Store) {
	put(t, s, "a", "v", long)
	release := lease(t, s, "a", long)
	has(t, s, "a", "v")
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	held(t, s, "a")
	missing(t, s, "a")
	put(t, s, "a", "w", long)
	release()
	has(t, s, "a", "w")
}

// A lease can be released after its context was canceled: the work that it guarded ends so.
func testCanceled(t *testing.T, s storage.Store) {
	put(t, s, "a", "v", long)
	ctx, cancel := context.WithCancel(t.Context())
	release, err := s.Lease(ctx, "a", long)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for name, err := range operations(ctx, s) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	has(t, s, "a", "v")
	release()
	lease(t, s, "a", long)()
}

func testClosed(t *testing.T, s storage.Store) {
	put(t, s, "a", "v", long)
	release := lease(t, s, "a", long)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for name, err := range operations(t.Context(), s) {
		named := errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrChanged) || errors.Is(err, storage.ErrHeld)
		if err == nil || named {
			t.Errorf("%s: got %v", name, err)
		}
	}
	release()
}

// operations calls each operation that may fail.
func operations(ctx context.Context, s storage.Store) map[string]error {
	errs := map[string]error{}
	_, errs["Get"] = s.Get(ctx, "a")
	errs["Put"] = s.Put(ctx, "a", []byte("other"), long)
	errs["Swap"] = s.Swap(ctx, "a", []byte("v"), []byte("other"), long)
	errs["Swap from nil"] = s.Swap(ctx, "a2", nil, []byte("other"), long)
	_, errs["Take"] = s.Take(ctx, "a")
	errs["Delete"] = s.Delete(ctx, "a")
	_, errs["Lease"] = s.Lease(ctx, "a2", long)
	errs["Ping"] = s.Ping(ctx)
	return errs
}

// race calls f from many goroutines at once. One call must succeed, the others must fail
// with loser.
func race(t *testing.T, loser error, f func(i int) error) {
	t.Helper()
	var winners atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-start
			if err := f(i); err == nil {
				winners.Add(1)
			} else if !errors.Is(err, loser) {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if n := winners.Load(); n != 1 {
		t.Errorf("%d of %d callers succeeded, not 1", n, callers)
	}
}

func put(t *testing.T, s storage.Store, key, value string, lifetime time.Duration) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(value), lifetime); err != nil {
		t.Fatalf("Put %q: %v", key, err)
	}
}

func has(t *testing.T, s storage.Store, key, want string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); err != nil || string(got) != want {
		t.Fatalf("Get %q: got %.50q (%d bytes), %v; want %.50q", key, got, len(got), err, want)
	}
}

func missing(t *testing.T, s storage.Store, key string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("Get %q: got %.50q, %v; want ErrNotFound", key, got, err)
	}
}

func gone(t *testing.T, s storage.Store, key string) {
	t.Helper()
	eventually(t, key+" expires", func() bool {
		_, err := s.Get(t.Context(), key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		return err != nil
	})
}

func lease(t *testing.T, s storage.Store, key string, lifetime time.Duration) (release func()) {
	t.Helper()
	release, err := s.Lease(t.Context(), key, lifetime)
	if err != nil {
		t.Fatalf("Lease %q: %v", key, err)
	}
	return release
}

func held(t *testing.T, s storage.Store, key string) {
	t.Helper()
	if _, err := s.Lease(t.Context(), key, long); !errors.Is(err, storage.ErrHeld) {
		t.Fatalf("Lease %q: got %v, not ErrHeld", key, err)
	}
}

// eventually waits until done returns true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-tick.C
	}
}
