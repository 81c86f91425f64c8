package memory

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Store { return New(Options{}) })
}

func TestStore_ExactExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		put(t, s, "a", "v", time.Minute)
		if _, err := s.Lease(t.Context(), "a", time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - 1)
		if _, err := s.Get(t.Context(), "a"); err != nil {
			t.Errorf("just before it expires: %v", err)
		}
		if _, err := s.Lease(t.Context(), "a", time.Minute); !errors.Is(err, storage.ErrHeld) {
			t.Errorf("just before the lease expires: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("when it expires: %v", err)
		}
		if _, err := s.Lease(t.Context(), "a", time.Minute); err != nil {
			t.Errorf("when the lease expires: %v", err)
		}
	})
}

func TestStore_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, o := range map[string]Options{
			"entries": {Entries: 3, Bytes: 1 << 20},
			"bytes":   {Entries: 100, Bytes: 3 * (overhead + 11)},
		} {
			s := New(o)
			value := strings.Repeat("v", 10)
			for i := range 3 {
				put(t, s, fmt.Sprint(i), value, time.Duration(i+1)*time.Minute)
			}
			full := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, storage.ErrFull) {
					t.Errorf("%s: %s: got %v, not ErrFull", name, what, err)
				}
			}
			full("Put", s.Put(t.Context(), "3", []byte(value), time.Minute))
			full("Swap", s.Swap(t.Context(), "3", nil, []byte(value), time.Minute))
			_, err := s.Lease(t.Context(), "3", time.Minute)
			full("Lease", err)

			// What is there may be replaced, and nothing was evicted.
			put(t, s, "0", "shorter", time.Minute)
			for i := range 3 {
				if _, err := s.Get(t.Context(), fmt.Sprint(i)); err != nil {
					t.Errorf("%s: value %d: %v", name, i, err)
				}
			}
			// What expired makes room, in the order of expiry.
			time.Sleep(time.Minute)
			put(t, s, "3", value, time.Minute)
			full("Put", s.Put(t.Context(), "4", []byte(value), time.Minute))
			// So does what was removed.
			if err := s.Delete(t.Context(), "1"); err != nil {
				t.Fatal(err)
			}
			put(t, s, "4", value, time.Minute)
			if _, err := s.Take(t.Context(), "4"); err != nil {
				t.Fatal(err)
			}
			release, err := s.Lease(t.Context(), "4", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			release()
			put(t, s, "5", value, time.Minute)
		}
	})
}

// A replaced value that is too large changes nothing.
func TestStore_TooLarge(t *testing.T) {
	s := New(Options{Bytes: 1000})
	put(t, s, "a", "v", time.Minute)
	large := make([]byte, 1001)
	if err := s.Put(t.Context(), "a", large, time.Minute); !errors.Is(err, storage.ErrFull) {
		t.Errorf("Put: %v", err)
	}
	if err := s.Swap(t.Context(), "a", []byte("v"), large, time.Minute); !errors.Is(err, storage.ErrFull) {
		t.Errorf("Swap: %v", err)
	}
	if got, err := s.Get(t.Context(), "a"); err != nil || string(got) != "v" {
		t.Errorf("got %q, %v", got, err)
	}
}

// What expired does not stay in memory: a million sign-ins that nobody finishes.
func TestStore_NoGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		for i := range 100_000 {
			put(t, s, fmt.Sprint(i), "v", time.Second)
			time.Sleep(time.Millisecond)
		}
		if n := len(s.byKey); n > 1001 || n != len(s.expiry) {
			t.Errorf("%d entries are kept, %d by expiry", n, len(s.expiry))
		}
		time.Sleep(time.Second)
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.byKey) != 0 || len(s.expiry) != 0 || s.used != 0 {
			t.Errorf("%d entries, %d by expiry and %d bytes are left", len(s.byKey), len(s.expiry), s.used)
		}
	})
}

func put(t *testing.T, s *Store, key, value string, lifetime time.Duration) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(value), lifetime); err != nil {
		t.Fatalf("Put %q: %v", key, err)
	}
}
