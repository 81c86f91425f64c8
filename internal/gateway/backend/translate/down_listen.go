package translate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/paramheader"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// acknowledgeTime bounds the wait for the acknowledgement of a subscription.
	acknowledgeTime = 10 * time.Second
)

// principalSession is what the sessions of one principal share. It has one subscription at
// the server with the filters of all of them (MCP 2026-07-28, subscriptions/listen), so
// that an idle session needs no connection of its own. It also caches which arguments of
// tools are repeated in headers.
type principalSession struct {
	clients   *Down
	principal string
	users     int                // guarded by clients.mu
	tools     *paramheader.Cache // nil when the transport has no headers

	ctx  context.Context // ends with close
	stop context.CancelFunc
	work wire.Group
	kick chan struct{} // a filter has changed
	// adding is a semaphore. A session that adds a resource holds it until the outcome, so
	// that one resource is added at a time: a server may reject the whole subscription
	// because of one resource.
	adding chan struct{}

	mu      sync.Mutex
	running bool
	members map[*downConn]*wire.Filter // the filter of each session
	version int                        // of the filters, increased with every change
	outcome listenOutcome
	changed chan struct{} // closed when outcome changes
}

// listenOutcome is the outcome of subscribing with one version of the filters.
type listenOutcome struct {
	version  int
	honoured wire.Filter
	err      error
}

func newPrincipalSession(s *Down, principal string) *principalSession {
	r := &principalSession{
		clients: s, principal: principal, kick: make(chan struct{}, 1), adding: make(chan struct{}, 1),
		members: map[*downConn]*wire.Filter{}, changed: make(chan struct{}),
	}
	if s.http {
		r.tools = paramheader.NewCache(s.log)
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

func (r *principalSession) close() {
	r.stop()
	r.work.Close()
}

// change calls f with the filter of c and returns the version that includes the change.
func (r *principalSession) change(c *downConn, f func(*wire.Filter) error) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.members[c]
	if in == nil {
		if c.ctx.Err() != nil {
			return 0, errSessionClosed
		}
		in = &wire.Filter{}
		r.members[c] = in
	}
	if err := f(in); err != nil {
		return 0, err
	}
	return r.changedLocked(), nil
}

func (r *principalSession) changedLocked() int {
	r.version++
	if !r.running {
		r.running = r.work.Go(r.run)
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return r.version
}

func (r *principalSession) remove(c *downConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members[c] != nil {
		delete(r.members, c)
		r.changedLocked()
	}
}

func (r *principalSession) hasResources(c *downConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[c] != nil && len(r.members[c].ResourceSubscriptions) > 0
}

// listen adds the list changes that the server declared to the filter of c. It waits for
// the server's acknowledgement, for [wire.ListenTimeout] at most.
func (r *principalSession) listen(c *downConn) {
	if c.declared.lists.IsEmpty() {
		return
	}
	version, err := r.change(c, func(in *wire.Filter) error { *in = wire.Union(*in, c.declared.lists); return nil })
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, wire.ListenTimeout)
	defer cancel()
	_, _ = r.await(ctx, version)
}

func (r *principalSession) subscribe(ctx context.Context, c *downConn, uri string) error {
	select {
	case r.adding <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ctx.Done():
		return errSessionClosed
	}
	defer func() { <-r.adding }()
	added := false
	version, err := r.change(c, func(in *wire.Filter) error {
		if slices.Contains(in.ResourceSubscriptions, uri) {
			return nil
		}
		if len(in.ResourceSubscriptions) >= wire.MaxSubscriptions || r.watched() >= wire.MaxWatched {
			return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resources are watched already"}
		}
		added = true
		in.ResourceSubscriptions = append(in.ResourceSubscriptions, uri)
		return nil
	})
	if err != nil {
		return err
	}
	honoured, err := r.await(ctx, version)
	switch {
	case err == nil && slices.Contains(honoured.ResourceSubscriptions, uri):
		return nil
	case err == nil:
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the server does not watch this resource"}
	}
	if added {
		r.unsubscribe(c, uri)
	}
	return err
}

// watched returns the number of resources in all filters. The caller holds mu.
func (r *principalSession) watched() (n int) {
	for _, in := range r.members {
		n += len(in.ResourceSubscriptions)
	}
	return n
}

func (r *principalSession) unsubscribe(c *downConn, uri string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.members[c]; in != nil {
		in.ResourceSubscriptions = slices.DeleteFunc(in.ResourceSubscriptions, func(other string) bool { return other == uri })
		r.changedLocked()
	}
}

// await waits for the outcome of a version, or of a later one, and returns it.
func (r *principalSession) await(ctx context.Context, version int) (wire.Filter, error) {
	for {
		r.mu.Lock()
		outcome, changed := r.outcome, r.changed
		r.mu.Unlock()
		if outcome.version >= version {
			return outcome.honoured, outcome.err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return wire.Filter{}, context.Cause(ctx)
		case <-r.ctx.Done():
			return wire.Filter{}, errSessionClosed
		}
	}
}

func (r *principalSession) settle(version int, honoured wire.Filter, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = listenOutcome{version, honoured, err}
	close(r.changed)
	r.changed = make(chan struct{})
}

// wanted returns the union of the filters and its version.
func (r *principalSession) wanted() (f wire.Filter, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]wire.Filter, 0, len(r.members))
	for _, in := range r.members {
		all = append(all, *in)
	}
	return wire.Union(all...), r.version
}

// run keeps the subscription at the server in accordance with the filters. The server has
// acknowledged a new subscription before run ends the old one, so that no notification is
// lost in between.
func (r *principalSession) run() {
	var current *subscription
	defer func() {
		if current != nil {
			current.stop()
		}
	}()
	var state wire.Backoff
	for {
		wanted, version := r.wanted()
		var broken <-chan struct{}
		var again <-chan time.Time
		switch {
		case wanted.IsEmpty():
			if current != nil {
				current.stop()
			}
			current = nil
			r.settle(version, wire.Filter{}, nil)
		case current != nil && current.wanted.Equal(&wanted):
			r.settle(version, current.honoured, nil)
			// A subscription of which the server honours nothing is not renewed: the
			// server may end each of them at once.
			if !current.honoured.IsEmpty() {
				broken = current.done
			}
		case r.endIfRefused():
			r.settle(version, wire.Filter{}, errEraChanged)
		default:
			next, err := r.begin(wanted)
			if err == nil {
				if current != nil {
					current.stop()
				}
				current = next
				continue
			}
			if r.ctx.Err() != nil {
				return
			}
			r.settle(version, wire.Filter{}, err)
			if refused := new(mcp.Error); !errors.As(err, &refused) || refused.Code != mcp.CodeMethodNotFound {
				r.clients.log.Debug("the server's changes are not heard of; it will be tried again", "error", err, "after", state.Pause())
				again = time.After(state.Pause())
				state.Attempts++
			}
		}
		select {
		case <-r.kick:
		case <-again:
		case <-r.ctx.Done():
			return
		case <-broken:
			if time.Since(current.since) > wire.MaxPause {
				state.Attempts = 0
			}
			r.clients.log.Debug("the subscription ended; it will be made again", "error", current.err, "after", state.Pause())
			current = nil
			// Without the pause, a server or an intermediary that closes streams would
			// receive requests in a tight loop.
			select {
			case <-r.kick:
			case <-time.After(state.Pause()):
			case <-r.ctx.Done():
				return
			}
			state.Attempts++
		}
	}
}
