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
	// acknowledgeTime bounds the wait for the first message of a subscription.
	acknowledgeTime = 10 * time.Second
)

// principalSession is what the sessions of one principal share: one subscription at the
// server with what all of them want to hear (MCP 2026-07-28,
// subscriptions/listen), so that an idle session costs no connection, and the
// memory of what tools want in headers.
type principalSession struct {
	clients   *Down
	principal string
	users     int                // guarded by clients.mu
	tools     *paramheader.Cache // nil when the transport has no headers

	ctx  context.Context // ends with the room
	stop context.CancelFunc
	work wire.Group
	kick chan struct{} // what is wanted has changed
	// adding is held by the session that wants one more resource, until it is known
	// what becomes of that: a server may refuse the others' with the one it does not want.
	adding chan struct{}

	mu      sync.Mutex
	running bool
	members map[*downConn]*wire.Filter // what each wants to hear
	version int                        // of what is wanted
	outcome listenOutcome
	changed chan struct{} // closed when outcome changes
}

// listenOutcome says what became of one version of what is wanted.
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

// change changes what c wants and returns the version that has the change.
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

// listen adds the lists that the server says it announces changes of. It waits
// until the server has acknowledged that, but not long.
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

// watched is called with mu held.
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

// await waits until it is known what became of a version.
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

// wanted is the union of what the sessions want.
func (r *principalSession) wanted() (f wire.Filter, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]wire.Filter, 0, len(r.members))
	for _, in := range r.members {
		all = append(all, *in)
	}
	return wire.Union(all...), r.version
}

// run keeps the one subscription as it is wanted. A new one stands before the
// old one ends, so that nothing is lost in between.
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
			if !current.honoured.IsEmpty() { // or it ends at once, and would again
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
			// A server, or something on the way, that cuts streams is not hurried.
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
