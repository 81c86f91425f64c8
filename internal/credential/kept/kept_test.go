package kept

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// until returns a Request whose value is used until t.
func until(value string, t time.Time) Request[string] {
	return func(context.Context) (string, time.Time, error) { return value, t, nil }
}

// A value is used until it is due, and an error as long as the request determines.
func TestCache_Until(t *testing.T) {
	t.Parallel()
	start := time.Now()
	now := start
	c := New[string](10, time.Minute, func() time.Time { return now })
	get := func(value string, err error) string {
		got, gotErr := c.Get(t.Context(), KeyOf("a"), func(context.Context) (string, time.Time, error) { return value, start.Add(time.Hour), err })
		if gotErr != nil {
			return gotErr.Error()
		}
		return got
	}
	refused := errors.New("refused")
	for _, step := range []struct {
		at    time.Duration
		value string
		err   error
		want  string
	}{
		{0, "", refused, "refused"},
		{time.Hour - 1, "one", nil, "refused"},
		{time.Hour, "two", nil, "two"},
	} {
		now = start.Add(step.at)
		if got := get(step.value, step.err); got != step.want {
			t.Errorf("after %s: %q, want %q", step.at, got, step.want)
		}
	}
}

// Concurrent callers with one key wait for one request; others have their own.
func TestCache_OneRequest(t *testing.T) {
	t.Parallel()
	c := New[string](100, time.Minute, time.Now)
	var requests atomic.Int64
	release := make(chan struct{})
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() {
			key := strconv.Itoa(i % 3)
			got, err := c.Get(t.Context(), KeyOf(key), func(context.Context) (string, time.Time, error) {
				requests.Add(1)
				<-release
				return key, time.Now().Add(time.Hour), nil
			})
			if got != key || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	close(release)
	group.Wait()
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// The number of outcomes is bounded. Requests under way are not dropped.
func TestCache_Bounded(t *testing.T) {
	t.Parallel()
	c := New[string](4, time.Minute, time.Now)
	for i := range 20 {
		if _, err := c.Get(t.Context(), KeyOf(strconv.Itoa(i)), until("v", time.Now().Add(time.Hour))); err != nil || c.Len() > 4 {
			t.Fatalf("%v, %d outcomes", err, c.Len())
		}
	}
	release := make(chan struct{})
	var group sync.WaitGroup
	began := make(chan struct{})
	for i := range 4 {
		group.Go(func() {
			_, _ = c.Get(t.Context(), KeyOf("slow", strconv.Itoa(i)), func(context.Context) (string, time.Time, error) {
				began <- struct{}{}
				<-release
				return "v", time.Now().Add(time.Hour), nil
			})
		})
	}
	for range 4 {
		<-began
	}
	if _, err := c.Get(t.Context(), KeyOf("more"), until("v", time.Now())); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	close(release)
	group.Wait()
}

// A caller that leaves does not end the request that others wait for; the timeout does.
func TestCache_CallerLeaves(t *testing.T) {
	t.Parallel()
	c := New[string](4, time.Hour, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	request := func(ctx context.Context) (string, time.Time, error) {
		cancel()
		<-release
		_, limited := ctx.Deadline()
		if ctx.Err() != nil || !limited {
			t.Errorf("%v, limited: %v", ctx.Err(), limited)
		}
		return "v", time.Now().Add(time.Hour), nil
	}
	if _, err := c.Get(ctx, KeyOf("a"), request); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	if got, err := c.Get(t.Context(), KeyOf("a"), request); got != "v" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A rejected value is dropped once it has an age; one that was obtained just now is not.
func TestCache_Drop(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := New[string](4, time.Minute, func() time.Time { return now })
	is := func(want string) func(string) bool { return func(v string) bool { return v == want } }
	key := KeyOf("a")
	_, _ = c.Get(t.Context(), key, until("one", now.Add(time.Hour)))
	if !c.Drop(key, is("older"), time.Second) || c.Len() != 1 {
		t.Error("the value of another request was dropped")
	}
	if c.Drop(key, is("one"), time.Second) || c.Len() != 1 {
		t.Error("a new value was dropped")
	}
	now = now.Add(time.Second)
	if !c.Drop(key, is("one"), time.Second) || c.Len() != 0 {
		t.Error("an old value was not dropped")
	}
	if !c.Drop(key, is("one"), time.Second) {
		t.Error("without a value another one is not requested")
	}
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	seen := map[Key][]string{}
	for _, fields := range [][]string{nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}} {
		key := KeyOf(fields...)
		if other, found := seen[key]; found {
			t.Errorf("%q and %q have one key", fields, other)
		}
		seen[key] = fields
		if KeyOf(slices.Clone(fields)...) != key {
			t.Errorf("%q has two keys", fields)
		}
	}
}
