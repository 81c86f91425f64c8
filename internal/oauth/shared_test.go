package oauth

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var errDown = errors.New("down")

func TestShared(t *testing.T) {
	now := time.Now()
	down, fetches := false, 0
	s := &Shared[int]{
		Fetch: func(context.Context) (int, error) {
			fetches++
			if down {
				return 0, errDown
			}
			return fetches, nil
		},
		Fresh: 10 * time.Minute, Retry: 5 * time.Second, Stale: time.Hour, Timeout: time.Minute,
		Now: func() time.Time { return now },
	}
	for _, step := range []struct {
		name  string
		after time.Duration
		down  bool
		value int
		err   error
	}{
		{"the first call fails", 0, true, 0, errDown},
		{"the error is returned without a request", time.Second, false, 0, errDown},
		{"and after Retry fetched again", 5 * time.Second, false, 2, nil},
		{"a value is fresh", 9 * time.Minute, true, 2, nil},
		{"an old value is used during an outage", 2 * time.Minute, true, 2, nil},
		{"and not requested each time", time.Second, false, 2, nil},
		{"it is replaced after the outage", 5 * time.Second, false, 4, nil},
		{"a value that is too old is not used", 2 * time.Hour, true, 0, errDown},
	} {
		now = now.Add(step.after)
		down = step.down
		if value, err := s.Get(t.Context()); value != step.value || !errors.Is(err, step.err) {
			t.Errorf("%s: got %d, %v", step.name, value, err)
		}
	}
	if fetches != 5 {
		t.Errorf("%d fetches", fetches)
	}
}

func TestShared_OneFetchForAllCallers(t *testing.T) {
	var fetches atomic.Int32
	begun, answer := make(chan struct{}), make(chan struct{})
	s := &Shared[int]{
		Fetch: func(context.Context) (int, error) {
			if fetches.Add(1) == 1 {
				close(begun)
			}
			<-answer
			return 7, nil
		},
		Fresh: time.Hour, Retry: time.Second, Timeout: time.Minute, Now: time.Now,
	}
	// The first caller leaves; the fetch goes on for the others.
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.Get(ctx)
		left <- err
	}()
	<-begun
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left: %v", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if value, err := s.Get(t.Context()); value != 7 || err != nil {
				t.Errorf("got %d, %v", value, err)
			}
		})
	}
	close(answer)
	wg.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}
