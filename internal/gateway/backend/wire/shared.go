package wire

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// Shared calls f once for all concurrent callers with the same key, and returns its result
// to each. A caller returns early when its ctx ends. That does not cancel f: the context of
// f ends after patience only.
func Shared[T any](ctx context.Context, group *singleflight.Group, key string, patience time.Duration, f func(context.Context) (T, error)) (T, error) {
	done := group.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return f(ctx)
	})
	var none T
	select {
	case r := <-done:
		if r.Err != nil {
			return none, r.Err
		}
		out, _ := r.Val.(T) // Val may be nil if T is any
		return out, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
