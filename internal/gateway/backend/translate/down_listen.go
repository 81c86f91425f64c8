package translate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/paramheader"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// acknowledgeTime bounds the wait for the acknowledgement of a subscription.
const acknowledgeTime = 10 * time.Second

// principalSession is what the sessions of one principal share. It has one subscription at
// the server with the filters of all of them (MCP 2026-07-28, subscriptions/listen), so
// that an idle session needs no connection of its own. It also caches which arguments of
// tools are repeated in headers.
type principalSession struct {
	clients   *Down
	principal string
	users     int                // guarded by clients.mu
	tools     *paramheader.Cache // nil when the transport has no headers
	callers   exchange.LastCaller

	ctx  context.Context // ends with close
	stop context.CancelFunc
	work wire.Group
	kick chan struct{} // a filter has changed
	// adding is a semaphore. A session that adds a resource holds it until the outcome, so
	// that one resource is added at a time: a server may reject the whole subscription
	// because of one resource.
	adding chan struct{}

	fanout subscribe.Fanout[*downConn]

	mu      sync.Mutex
	running bool
	version int // of the filters, increased with every change
	outcome listenOutcome
	changed chan struct{} // closed when outcome changes
}

// listenOutcome is the outcome of subscribing with one version of the filters.
type listenOutcome struct {
	version  int
	honoured subscribe.Filter
	err      error
}

func newPrincipalSession(s *Down, principal string) *principalSession {
	r := &principalSession{
		clients: s, principal: principal, kick: make(chan struct{}, 1), adding: make(chan struct{}, 1),
		changed: make(chan struct{}),
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

// change calls f with the filter of c, which it may change, and returns the version that
// includes the change. The error is that of f, or an *mcp.Error for too many resources.
func (r *principalSession) change(c *downConn, f func(*subscribe.Filter) error) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.subscription == nil {
		if c.ctx.Err() != nil {
			return 0, errSessionClosed
		}
		c.subscription = r.fanout.AddSession(c, c.session, subscribe.Filter{})
	}
	if err := c.subscription.Change(f); err != nil {
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
	if c.subscription != nil {
		r.fanout.Remove(c.subscription)
		c.subscription = nil
		r.changedLocked()
	}
}

func (r *principalSession) hasResources(c *downConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.subscription != nil && len(c.subscription.Requested().ResourceSubscriptions) > 0
}

// listen adds the list changes that the server declared to the filter of c. It waits for
// the server's acknowledgement, for [wire.ListenTimeout] at most.
func (r *principalSession) listen(c *downConn) {
	if c.declared.lists.IsEmpty() {
		return
	}
	version, err := r.change(c, func(f *subscribe.Filter) error { *f = subscribe.Union(*f, c.declared.lists); return nil })
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
	version, err := r.change(c, func(f *subscribe.Filter) error {
		if slices.Contains(f.ResourceSubscriptions, uri) {
			return nil
		}
		if len(f.ResourceSubscriptions) >= subscribe.MaxResources {
			return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resources are watched already"}
		}
		added = true
		f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
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

func (r *principalSession) unsubscribe(c *downConn, uri string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.subscription == nil {
		return
	}
	err := c.subscription.Change(func(f *subscribe.Filter) error {
		f.ResourceSubscriptions = slices.DeleteFunc(f.ResourceSubscriptions, func(other string) bool { return other == uri })
		return nil
	})
	if err == nil { // always: fewer resources are not too many
		r.changedLocked()
	}
}

// await waits for the outcome of a version, or of a later one, and returns it.
func (r *principalSession) await(ctx context.Context, version int) (subscribe.Filter, error) {
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
			return subscribe.Filter{}, context.Cause(ctx)
		case <-r.ctx.Done():
			return subscribe.Filter{}, errSessionClosed
		}
	}
}

// report sets the outcome of a version.
func (r *principalSession) report(version int, honoured subscribe.Filter, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = listenOutcome{version, honoured, err}
	close(r.changed)
	r.changed = make(chan struct{})
}

// requested returns the union of the filters and its version.
func (r *principalSession) requested() (f subscribe.Filter, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fanout.Union(), r.version
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
		requested, version := r.requested()
		var broken <-chan struct{}
		var again <-chan time.Time
		switch {
		case requested.IsEmpty():
			if current != nil {
				current.stop()
			}
			current = nil
			r.report(version, subscribe.Filter{}, nil)
		case current != nil && current.requested.Equal(&requested):
			r.report(version, current.honoured, nil)
			// A subscription of which the server honours nothing is not renewed: the
			// server may end each of them at once.
			if !current.honoured.IsEmpty() {
				broken = current.done
			}
		case r.endIfRefused():
			r.report(version, subscribe.Filter{}, errEraChanged)
		default:
			next, err := r.begin(requested)
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
			r.report(version, subscribe.Filter{}, err)
			if refused := new(mcp.Error); !errors.As(err, &refused) || refused.Code != mcp.CodeMethodNotFound {
				r.clients.log.Debug("subscriptions/listen failed and is repeated", "error", err, "after", state.Pause())
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
			r.clients.log.Debug("the subscription ended and is made again", "error", current.err, "after", state.Pause())
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
