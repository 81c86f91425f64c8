package oauth

import (
	"context"
	"sync"
	"time"
)

// Shared is what a server publishes, such as its metadata: fetched when it is needed, once
// for all callers, and again after Fresh. An error is returned for Retry before the next
// fetch, so that callers cannot cause a request each. A value that was fetched before is
// returned in place of an error until it is older than Stale.
//
// The exported fields are set before the first Get.
type Shared[T any] struct {
	Fetch               func(context.Context) (T, error)
	Fresh, Retry, Stale time.Duration
	Timeout             time.Duration // of one Fetch
	Now                 func() time.Time

	mu       sync.Mutex
	fetching chan struct{} // closed when the running Fetch ends; nil while none runs
	result   result[T]
}

// result is the outcome of the last Fetch.
type result[T any] struct {
	value   T
	err     error
	until   time.Time // it is returned until then
	fetched time.Time // of value; zero if there is none
}

// Get returns the value or the error of the last Fetch, or those of a new one. It fails with
// the error of ctx when that ends first; the Fetch goes on for other callers.
func (s *Shared[T]) Get(ctx context.Context) (T, error) {
	running := s.begin()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result.value, s.result.err
}

// begin returns the running Fetch, or a new one; nil while the last result holds.
func (s *Shared[T]) begin() (running chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Now().Before(s.result.until) {
		return nil
	}
	if s.fetching == nil {
		s.fetching = make(chan struct{})
		go s.fetch(s.fetching)
	}
	return s.fetching
}

// fetch stores a new result. It serves all callers and does not end with one of them.
func (s *Shared[T]) fetch(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	value, err := s.Fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	s.fetching = nil
	now := s.Now()
	switch {
	case err == nil:
		s.result = result[T]{value: value, until: now.Add(s.Fresh), fetched: now}
	case !s.result.fetched.IsZero() && now.Sub(s.result.fetched) < s.Stale:
		s.result.until = now.Add(s.Retry)
	default:
		s.result = result[T]{err: err, until: now.Add(s.Retry)}
	}
}
