package reconcile

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How long a reconciler waits for its own write to arrive in the cache, and how often it looks.
const (
	seenWithin = time.Second
	seenEvery  = 2 * time.Millisecond
)

// seen waits until the cache has an object as it was written, with its version. Until then the next
// reconciliation of the same resource, which the write itself causes, would find what was there
// before and write it again. What does not arrive in time is only written once more.
func seen(ctx context.Context, cache client.Reader, written client.Object, version string) {
	o, err := empty(written)
	if err != nil {
		return
	}
	want, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return
	}
	key := client.ObjectKeyFromObject(written)
	_ = wait.PollUntilContextTimeout(ctx, seenEvery, seenWithin, true, func(ctx context.Context) (bool, error) {
		err := cache.Get(ctx, key, o)
		got, parseErr := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		return err == nil && parseErr == nil && got >= want, nil // else it is not there yet
	})
}
