package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// fakeFault is a driver's error that means a fault.
type fakeFault struct{ fault Fault }

func (fakeFault) Error() string { return "the driver\n\tfails" }

func newTestDatabase() *database {
	return &database{dialect: Dialect{Fault: func(err error) Fault {
		var f fakeFault
		if errors.As(err, &f) {
			return f.fault
		}
		return Other
	}}}
}

func TestDatabase_Faults(t *testing.T) {
	own := errors.New("the caller's own")
	for name, test := range map[string]struct {
		err      error
		attempts int // at least
		is       error
	}{
		"an error of another kind":      {errors.New("broken"), 1, nil},
		"the caller's error":            {callerError{own}, 1, own},
		"a caller's error of a fault":   {callerError{fakeFault{Conflict}}, 1, fakeFault{Conflict}},
		"no connection":                 {fakeFault{Unavailable}, 1, store.ErrUnavailable},
		"connections that break":        {fakeFault{Lost}, maxLost + 1, store.ErrUnavailable},
		"a commit without a response":   {commitError{fakeFault{Lost}}, 1, store.ErrUnavailable},
		"a commit with a conflict":      {commitError{fakeFault{Conflict}}, maxConflicts + 1, store.ErrUnavailable},
		"conflicts without end":         {fakeFault{Conflict}, maxConflicts + 1, store.ErrUnavailable},
		"a lock that is never released": {fakeFault{Busy}, 2, store.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts := 0
			limit := 30 * time.Second
			if errors.Is(test.err, fakeFault{Busy}) {
				limit = 2 * time.Second
			}
			err := newTestDatabase().do(t.Context(), "try", limit, func(context.Context) error {
				attempts++
				return test.err
			})
			if err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v", err)
			}
			if attempts < test.attempts || test.attempts != 2 && attempts != test.attempts {
				t.Errorf("it was tried %d times, not %d", attempts, test.attempts)
			}
			if errors.Is(err, store.ErrUnavailable) && (strings.Contains(err.Error(), "\n") || errors.As(err, new(fakeFault))) {
				t.Errorf("the cause is more than one line of text: %q", err)
			}
		})
	}
}

func TestDatabase_RetrySucceeds(t *testing.T) {
	for _, fault := range []Fault{Conflict, Busy, Lost} {
		attempts := 0
		err := newTestDatabase().do(t.Context(), "try", 30*time.Second, func(context.Context) error {
			if attempts++; attempts < 4 {
				return fmt.Errorf("wrapped: %w", fakeFault{fault})
			}
			return nil
		})
		if err != nil || attempts != 4 {
			t.Errorf("fault %d: %d attempts, %v", fault, attempts, err)
		}
	}
}

func TestDatabase_TimeLimits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := newTestDatabase().do(ctx, "try", time.Minute, func(context.Context) error {
		cancel()
		return fakeFault{Unavailable}
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	err = newTestDatabase().do(t.Context(), "try", time.Millisecond, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error at the time limit: %v", err)
	}
}
