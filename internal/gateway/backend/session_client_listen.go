package backend

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// maxWatched bounds the resources that all sessions of a room watch; each
	// session has maxSubscriptions.
	maxWatched = 1024
	// acknowledgeTime bounds the wait for the first message of a subscription.
	acknowledgeTime = 10 * time.Second
)

// room is what the sessions of one principal share: one subscription at the
// server with what all of them want to hear (MCP 2026-07-28,
// subscriptions/listen), so that an idle session costs no connection, and the
// memory of what tools want in headers.
type room struct {
	clients   *sessionClients
	principal string
	users     int          // guarded by clients.mu
	tools     *toolHeaders // nil when the transport has no headers

	ctx  context.Context // ends with the room
	stop context.CancelFunc
	work workers
	kick chan struct{} // what is wanted has changed
	// adding is held by the session that wants one more resource, until it is known
	// what becomes of that: a server may refuse the others' with the one it does not want.
	adding chan struct{}

	mu      sync.Mutex
	running bool
	members map[*sessionConn]*filter // what each wants to hear
	version int                      // of what is wanted
	outcome listenOutcome
	changed chan struct{} // closed when outcome changes
}

// listenOutcome says what became of one version of what is wanted.
type listenOutcome struct {
	version  int
	honoured filter
	err      error
}

func newRoom(s *sessionClients, principal string) *room {
	r := &room{
		clients: s, principal: principal, kick: make(chan struct{}, 1), adding: make(chan struct{}, 1),
		members: map[*sessionConn]*filter{}, changed: make(chan struct{}),
	}
	if _, stdio := s.modern.(modernStdio); !stdio {
		r.tools = newToolHeaders(s.log)
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

func (r *room) close() {
	r.stop()
	r.work.wait()
}

// change changes what c wants and returns the version that has the change.
func (r *room) change(c *sessionConn, f func(*filter) error) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.members[c]
	if in == nil {
		if c.ctx.Err() != nil {
			return 0, errLeft
		}
		in = &filter{}
		r.members[c] = in
	}
	if err := f(in); err != nil {
		return 0, err
	}
	return r.changedLocked(), nil
}

func (r *room) changedLocked() int {
	r.version++
	if !r.running {
		r.running = r.work.start(r.run)
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return r.version
}

func (r *room) remove(c *sessionConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members[c] != nil {
		delete(r.members, c)
		r.changedLocked()
	}
}

func (r *room) hasResources(c *sessionConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[c] != nil && len(r.members[c].ResourceSubscriptions) > 0
}

// listen adds the lists that the server says it announces changes of. It waits
// until the server has acknowledged that, but not long.
func (r *room) listen(c *sessionConn) {
	if c.declared.lists.empty() {
		return
	}
	version, err := r.change(c, func(in *filter) error { *in = union(*in, c.declared.lists); return nil })
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, listenTime)
	defer cancel()
	_, _ = r.await(ctx, version)
}

func (r *room) subscribe(ctx context.Context, c *sessionConn, uri string) error {
	select {
	case r.adding <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ctx.Done():
		return errLeft
	}
	defer func() { <-r.adding }()
	added := false
	version, err := r.change(c, func(in *filter) error {
		if slices.Contains(in.ResourceSubscriptions, uri) {
			return nil
		}
		if len(in.ResourceSubscriptions) >= maxSubscriptions || r.watched() >= maxWatched {
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
func (r *room) watched() (n int) {
	for _, in := range r.members {
		n += len(in.ResourceSubscriptions)
	}
	return n
}

func (r *room) unsubscribe(c *sessionConn, uri string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.members[c]; in != nil {
		in.ResourceSubscriptions = slices.DeleteFunc(in.ResourceSubscriptions, func(other string) bool { return other == uri })
		r.changedLocked()
	}
}

// await waits until it is known what became of a version.
func (r *room) await(ctx context.Context, version int) (filter, error) {
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
			return filter{}, context.Cause(ctx)
		case <-r.ctx.Done():
			return filter{}, errLeft
		}
	}
}

func (r *room) settle(version int, honoured filter, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = listenOutcome{version, honoured, err}
	close(r.changed)
	r.changed = make(chan struct{})
}

// wanted is the union of what the sessions want.
func (r *room) wanted() (f filter, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]filter, 0, len(r.members))
	for _, in := range r.members {
		all = append(all, *in)
	}
	return union(all...), r.version
}

// run keeps the one subscription as it is wanted. A new one stands before the
// old one ends, so that nothing is lost in between.
func (r *room) run() {
	var current *subscription
	defer func() {
		if current != nil {
			current.stop()
		}
	}()
	var state streamState
	for {
		wanted, version := r.wanted()
		var broken <-chan struct{}
		var again <-chan time.Time
		switch {
		case wanted.empty():
			if current != nil {
				current.stop()
			}
			current = nil
			r.settle(version, filter{}, nil)
		case current != nil && current.wanted.equal(&wanted):
			r.settle(version, current.honoured, nil)
			if !current.honoured.empty() { // or it ends at once, and would again
				broken = current.done
			}
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
			r.lostBy(err)
			r.settle(version, filter{}, err)
			if refused := new(mcp.Error); !errors.As(err, &refused) || refused.Code != mcp.CodeMethodNotFound {
				r.clients.log.Debug("the server's changes are not heard of; it will be tried again", "error", err, "after", state.pause())
				again = time.After(state.pause())
				state.attempts++
			}
		}
		select {
		case <-r.kick:
		case <-again:
		case <-r.ctx.Done():
			return
		case <-broken:
			if time.Since(current.since) > maxPause {
				state.attempts = 0
			}
			r.clients.log.Debug("the subscription ended; it will be made again", "error", current.err, "after", state.pause())
			current = nil
			// A server, or something on the way, that cuts streams is not hurried.
			select {
			case <-r.kick:
			case <-time.After(state.pause()):
			case <-r.ctx.Done():
				return
			}
			state.attempts++
		}
	}
}
