package wire

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// Shared has f done once for all who ask for the key meanwhile, and waits for what
// comes of it, or for ctx. None of them can cancel it; patience bounds it.
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
		out, _ := r.Val.(T) // nil where T is any
		return out, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
