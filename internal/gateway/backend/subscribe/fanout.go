package subscribe

import (
	"encoding/json"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Fanout holds the subscriptions of the clients of one server. Each has an owner, which the
// caller chooses. The zero Fanout is empty.
type Fanout[Owner any] struct {
	mu            sync.Mutex // taken before that of a Subscription
	subscriptions map[*Subscription[Owner]]struct{}
}

// Subscription is the subscription of one client in a [Fanout].
type Subscription[Owner any] struct {
	Owner Owner

	fanout *Fanout[Owner]
	peer   exchange.Peer
	id     mcp.ID // of the listen request; zero for a session
	group  any    // see [Grouped]

	// mu is held while peer receives a notification: the acknowledgement comes first.
	mu           sync.Mutex
	requested    Filter
	acknowledged bool   // always true for a session
	honored      Filter // the filter in the acknowledgement
	waiting      []*mcp.Message
}

// Grouped is a peer that passes changes on to other subscriptions. Of the subscriptions
// whose peers have the same Group, one receives a change.
type Grouped interface{ Group() any }

// maxWaiting bounds the notifications that wait for the acknowledgement of a subscription.
// Further ones are dropped.
const maxWaiting = 64

// errTooMany is the error for resources beyond [MaxWatched].
var errTooMany = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resources are watched already"}

// AddListen adds the subscription of a subscriptions/listen request with the id (MCP
// 2026-07-28, Subscriptions). Until Acknowledge, what matches the filter is kept. The error
// is an *mcp.Error for too many resources.
func (f *Fanout[Owner]) AddListen(owner Owner, peer exchange.Peer, id mcp.ID, filter Filter) (*Subscription[Owner], error) {
	s := &Subscription[Owner]{Owner: owner, fanout: f, peer: wire.OrNoPeer(peer), id: id, requested: filter}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(filter.ResourceSubscriptions); n > 0 && f.watched()+n > MaxWatched {
		return nil, errTooMany
	}
	f.add(s)
	return s, nil
}

// AddSession adds the subscription of a session, which receives what its filter matches
// from the beginning.
func (f *Fanout[Owner]) AddSession(owner Owner, peer exchange.Peer, filter Filter) *Subscription[Owner] {
	s := &Subscription[Owner]{Owner: owner, fanout: f, peer: wire.OrNoPeer(peer), requested: filter, acknowledged: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(s)
	return s
}

// add adds s. The caller holds mu.
func (f *Fanout[Owner]) add(s *Subscription[Owner]) {
	if g, ok := s.peer.(Grouped); ok {
		s.group = g.Group()
	}
	if f.subscriptions == nil {
		f.subscriptions = map[*Subscription[Owner]]struct{}{}
	}
	f.subscriptions[s] = struct{}{}
}

// Remove removes s, and reports whether no subscription is left. A notification that is
// being passed on may still reach its peer.
func (f *Fanout[Owner]) Remove(s *Subscription[Owner]) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscriptions, s)
	return len(f.subscriptions) == 0
}

// All returns the subscriptions.
func (f *Fanout[Owner]) All() []*Subscription[Owner] {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*Subscription[Owner], 0, len(f.subscriptions))
	for s := range f.subscriptions {
		all = append(all, s)
	}
	return all
}

// Union returns the filter that selects what any of the subscriptions requests.
func (f *Fanout[Owner]) Union() Filter {
	all := f.All()
	filters := make([]Filter, 0, len(all))
	for _, s := range all {
		filters = append(filters, s.Requested())
	}
	return Union(filters...)
}

// Notify passes a change to the subscriptions whose filter matches it.
func (f *Fanout[Owner]) Notify(m *mcp.Message) {
	passed := map[any]bool{}
	for _, s := range f.All() {
		if s.group != nil && passed[s.group] {
			continue
		}
		if s.notify(m) && s.group != nil {
			passed[s.group] = true
		}
	}
}

// watched returns the number of resources in all filters. The caller holds mu.
func (f *Fanout[Owner]) watched() (n int) {
	for s := range f.subscriptions {
		s.mu.Lock()
		n += len(s.requested.ResourceSubscriptions)
		s.mu.Unlock()
	}
	return n
}

// Requested returns the filter that the client requests.
func (s *Subscription[Owner]) Requested() Filter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requested.clone()
}

// Change calls change with the requested filter, which it may change. The error is that of
// change, or an *mcp.Error for too many resources; the filter is then as before.
func (s *Subscription[Owner]) Change(change func(*Filter) error) error {
	s.fanout.mu.Lock()
	defer s.fanout.mu.Unlock()
	before := s.Requested()
	after := before.clone()
	if err := change(&after); err != nil {
		return err
	}
	more := len(after.ResourceSubscriptions) - len(before.ResourceSubscriptions)
	if more > 0 && s.fanout.watched()+more > MaxWatched {
		return errTooMany
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested = after
	return nil
}

// Acknowledged reports whether the client has received the acknowledgement.
func (s *Subscription[Owner]) Acknowledged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acknowledged
}

// Acknowledge sends the client the acknowledgement and what was kept for it. From then on
// the client receives the part of its filter that is in honored. params are those of the
// server's acknowledgement, or an empty object.
func (s *Subscription[Owner]) Acknowledge(params json.RawMessage, honored Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledged, s.honored = true, s.requested.Intersection(honored)
	if params, err := mcp.Set(params, s.honored.JSON(), "notifications"); err == nil {
		s.send(mcp.NotificationSubscribed, params)
	}
	for _, m := range s.waiting {
		if s.honored.Matches(m) {
			s.send(m.Method, m.Params)
		}
	}
	s.waiting = nil
}

// Refresh sends the client a change of everything that its acknowledgement and honored
// contain: changes may have been lost while the subscription at the server was replaced.
func (s *Subscription[Owner]) Refresh(honored Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	both := s.honored.Intersection(honored)
	for _, change := range ListChanges {
		if *both.List(change) {
			s.send(change, nil)
		}
	}
	for _, uri := range both.ResourceSubscriptions {
		if params, err := json.Marshal(map[string]string{"uri": uri}); err == nil {
			s.send(mcp.NotificationResourceUpdated, params)
		}
	}
}

// notify passes m to the client, or keeps it until the acknowledgement, and reports whether
// the filter matches m.
func (s *Subscription[Owner]) notify(m *mcp.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	filter := &s.requested
	if s.acknowledged && !s.id.IsZero() {
		filter = &s.honored
	}
	switch {
	case !filter.Matches(m):
		return false
	case s.acknowledged:
		s.send(m.Method, m.Params)
	case len(s.waiting) < maxWaiting:
		s.waiting = append(s.waiting, m)
	}
	return true
}

// send sends the client a notification with the client's own subscription id. The caller
// holds mu.
func (s *Subscription[Owner]) send(method string, params json.RawMessage) {
	if !s.id.IsZero() {
		var err error
		if params, err = mcp.Set(params, s.id.Raw(), "_meta", mcp.MetaSubscription); err != nil {
			return // the client could not parse these params either
		}
	}
	s.peer.Notify(&mcp.Message{Method: method, Params: params})
}
