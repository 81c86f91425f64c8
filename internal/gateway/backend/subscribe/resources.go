package subscribe

import "context"

// Resources counts the subscriptions to each resource in one session at a server, which
// keeps one subscription for all of them (MCP 2025-11-25, Resources, Subscriptions).
type Resources struct {
	// changing is a semaphore. It is held while a count changes, and during the request
	// to the server.
	changing chan struct{}
	count    map[string]int
}

// NewResources returns Resources without subscriptions.
func NewResources() *Resources {
	return &Resources{changing: make(chan struct{}, 1), count: map[string]int{}}
}

// Add counts one more subscription to a resource unless request fails, and returns its
// error. first is set for the first subscription. Add fails when ctx ends before request is
// called.
func (r *Resources) Add(ctx context.Context, uri string, request func(first bool) error) error {
	return r.change(ctx, func() error {
		err := request(r.count[uri] == 0)
		if err == nil {
			r.count[uri]++
		}
		return err
	})
}

// Remove counts one subscription less to a resource. It calls request for the last one,
// which remains if request fails; Remove returns its error. Remove fails when ctx ends
// before request is called.
func (r *Resources) Remove(ctx context.Context, uri string, request func() error) error {
	return r.change(ctx, func() error {
		if r.count[uri] > 1 {
			r.count[uri]--
			return nil
		}
		err := request()
		if err == nil {
			delete(r.count, uri)
		}
		return err
	})
}

func (r *Resources) change(ctx context.Context, change func() error) error {
	select {
	case r.changing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.changing }()
	return change()
}
