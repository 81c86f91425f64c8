package stdio

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// settleTime bounds the wait for the server to end a subscription, and to acknowledge one.
// Other clients that subscribe wait meanwhile.
const settleTime = 500 * time.Millisecond

// subscriptions combines the subscriptions of a process's clients into one at the server.
// The protocol allows any number of them. But a stdio server has one client, and a server
// of the official Go SDK (v1.8.0) keeps one subscription for it: after a second one, the
// first receives nothing, and the end of either ends both. So the subscription at the
// server is the union of the clients' filters. It is replaced when a client requests more
// than it covers, and each client receives what it requested.
type subscriptions struct {
	process *process
	turn    chan struct{} // held while the subscription at the server is replaced

	mu      sync.Mutex
	members map[*subscriber]struct{}
	current *upstream                 // nil for none
	last    *correlate.PendingRequest // the latest cancelled one, which may not have ended yet
}

// subscriber is one client's subscription.
type subscriber struct {
	exchange *exchange.Exchange
	wants    wire.Filter
	line     *wire.CallPeer
	told     bool        // the client has received the acknowledgement
	hears    wire.Filter // the filter in the acknowledgement
	end      chan outcomeOf
}

type outcomeOf struct {
	answer *mcp.Message
	err    error
}

// upstream is the subscription at the server.
type upstream struct {
	exchange.PeerDefaults
	subscriptions *subscriptions
	flight        *correlate.PendingRequest
	covers        wire.Filter
	newest        *subscriber     // the one for which it was opened; nil if it was restored
	ack           json.RawMessage // params of its acknowledgement, nil before
	honors        wire.Filter
	replaced      bool
	acked         chan struct{} // closed when ack is set
	gone          chan struct{} // closed when replaced is set
	over          chan struct{} // closed when the server has ended it
}

func newSubscriptions(p *process) *subscriptions {
	return &subscriptions{process: p, turn: make(chan struct{}, 1), members: map[*subscriber]struct{}{}}
}

// play adds the listen request x to the subscription and waits for its response. sent
// reports whether the server may have received it.
func (h *subscriptions) play(ctx context.Context, x *exchange.Exchange, wants wire.Filter) (answer *mcp.Message, sent bool, err error) {
	if _, _, err := h.process.pending.Hints(x); err != nil {
		return nil, false, err // rejected before it is combined with others
	}
	s := &subscriber{exchange: x, wants: wants, line: wire.NewCallPeer(x.Peer), end: make(chan outcomeOf, 1)}
	defer s.line.Detach()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	case <-h.process.closing:
		return nil, false, h.process.why
	}
	err = h.admit(ctx, s)
	<-h.turn
	if err != nil {
		h.leave(s)
		return nil, false, err
	}
	select {
	case o := <-s.end:
		if o.answer != nil {
			o.answer = &mcp.Message{ID: x.Request.ID, Result: o.answer.Result, Error: o.answer.Error}
		}
		return o.answer, true, o.err
	case <-ctx.Done():
		h.leave(s)
		return nil, true, context.Cause(ctx)
	}
}

// admit adds s to the members and replaces the subscription at the server unless it covers
// s. The caller holds turn.
func (h *subscriptions) admit(ctx context.Context, s *subscriber) error {
	h.mu.Lock()
	watched := len(s.wants.ResourceSubscriptions)
	for other := range h.members {
		watched += len(other.wants.ResourceSubscriptions)
	}
	if len(s.wants.ResourceSubscriptions) > 0 && watched > wire.MaxWatched {
		h.mu.Unlock()
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resources are watched already"}
	}
	h.members[s] = struct{}{}
	if up := h.current; up != nil && up.ack != nil && up.covers.Includes(s.wants) {
		up.welcome(s)
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()
	err := h.renew(ctx, s)
	if err != nil {
		h.mu.Lock()
		delete(h.members, s)
		h.mu.Unlock()
	}
	h.restore(ctx)
	return err
}

// restore opens a subscription at the server if there are members but no subscription: the
// server rejected or ended the last one, or it could not be sent. If that fails, all
// members end with the error. The caller holds turn.
func (h *subscriptions) restore(ctx context.Context) {
	h.mu.Lock()
	bereft := h.current == nil && len(h.members) > 0
	h.mu.Unlock()
	if !bereft {
		return
	}
	err := h.renew(ctx, nil)
	if err == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.members {
		delete(h.members, s)
		s.end <- outcomeOf{nil, err}
	}
}

// renew replaces the subscription at the server by one for all members. It waits for the
// end of the previous one and for the acknowledgement, each for at most settleTime.
func (h *subscriptions) renew(ctx context.Context, newest *subscriber) error {
	h.mu.Lock()
	old := h.withdraw()
	last := h.last
	up := &upstream{subscriptions: h, newest: newest, acked: make(chan struct{}), gone: make(chan struct{}), over: make(chan struct{})}
	template := newest
	all := make([]wire.Filter, 0, len(h.members))
	for s := range h.members {
		all = append(all, s.wants)
		if template == nil {
			template = s
		}
	}
	up.covers = wire.Union(all...)
	h.mu.Unlock()
	if old != nil {
		h.process.abandon(old)
	}
	if last != nil {
		h.waitFor(ctx, last.Done, nil)
	}
	if template == nil {
		return nil
	}
	request := template.exchange.Request
	params, err := mcp.Set(request.Params, up.covers.JSON(), "notifications")
	if err != nil {
		return err
	}
	f, out, err := h.process.pending.Add(&exchange.Exchange{Client: template.exchange.Client, Peer: up,
		Request: &mcp.Message{ID: request.ID, Method: request.Method, Params: params}})
	if err != nil {
		return err
	}
	up.flight = f
	h.mu.Lock()
	h.current = up
	h.mu.Unlock()
	// The subscription is also that of other clients, so it does not end with ctx.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.FarewellTimeout)
	defer cancel()
	if err = h.process.send(sending, out); err == nil && !h.process.work.Go(up.watch) {
		err = h.process.why
	}
	if err != nil {
		h.mu.Lock()
		if h.current == up {
			h.current = nil
		}
		h.mu.Unlock()
		h.process.pending.Remove(f)
		return err
	}
	h.waitFor(ctx, up.acked, up.over)
	return nil
}

// waitFor waits until one of the channels is closed, for at most settleTime.
func (h *subscriptions) waitFor(ctx context.Context, one, other <-chan struct{}) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-one:
	case <-other:
	case <-timer.C:
	case <-ctx.Done():
	case <-h.process.closing:
	}
}

// withdraw removes the subscription at the server and returns its request, which the caller
// has to cancel; nil for none. The caller holds mu.
func (h *subscriptions) withdraw() *correlate.PendingRequest {
	up := h.current
	if up == nil {
		return nil
	}
	up.replaced, h.current, h.last = true, nil, up.flight
	close(up.gone)
	return up.flight
}

// leave removes s. Without members, the subscription at the server is cancelled.
func (h *subscriptions) leave(s *subscriber) {
	h.mu.Lock()
	delete(h.members, s)
	var f *correlate.PendingRequest
	if len(h.members) == 0 {
		f = h.withdraw()
	}
	h.mu.Unlock()
	if f != nil {
		h.process.abandon(f)
	}
}

// watch waits for the server to end the subscription, and restores it if members remain.
func (u *upstream) watch() {
	select {
	case <-u.flight.Done:
	case <-u.gone: // a server need not respond to a cancelled request
		return
	}
	u.ended()
	h := u.subscriptions
	select {
	case h.turn <- struct{}{}:
		h.restore(context.Background())
		<-h.turn
	case <-h.process.closing:
	}
}

// ended ends the members' requests with the response that ended the subscription.
func (u *upstream) ended() {
	h := u.subscriptions
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(u.over)
	if u.replaced {
		return
	}
	h.current = nil
	for s := range h.members {
		// A refusal concerns the newest member, because of which more was requested. The
		// members that were acknowledged before stay.
		if u.ack == nil && u.flight.Err == nil && u.flight.Answer.Error != nil && u.newest != nil && s != u.newest && s.told {
			continue
		}
		delete(h.members, s)
		s.end <- outcomeOf{u.flight.Answer, u.flight.Err}
	}
}

// Notify passes a message of the subscription to the members whose filters match it.
func (u *upstream) Notify(m *mcp.Message) {
	h := u.subscriptions
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.replaced || m.Method == mcp.NotificationProgress { // progress has no member
		return
	}
	if m.Method != mcp.NotificationSubscribed {
		for s := range h.members {
			if s.told && s.hears.Matches(m) {
				s.tell(m.Method, m.Params)
			}
		}
		return
	}
	if u.ack != nil {
		return
	}
	u.ack = slices.Clone(m.Params)
	u.honors, _, _ = wire.ParseFilter(m.Params) // empty if it cannot be parsed
	for s := range h.members {
		if s.told {
			s.refresh(u.honors) // changes may have been lost meanwhile
		} else {
			u.welcome(s)
		}
	}
	close(u.acked)
}

// unmarked passes a change that carries no subscription id to the members, and reports
// whether there is a subscription. Every message of a subscription must carry its id (MCP
// 2026-07-28, Subscriptions). Those of mcp-go (v1.2.1) over stdio do not, and can only
// belong to the one subscription.
func (h *subscriptions) unmarked(m *mcp.Message) bool {
	h.mu.Lock()
	up := h.current
	h.mu.Unlock()
	if up == nil {
		return false
	}
	up.Notify(m)
	return true
}

// isMarked reports whether m carries a subscription id or cannot be parsed.
func isMarked(m *mcp.Message) bool {
	_, found, err := mcp.Lookup(m.Params, "_meta", mcp.MetaSubscription)
	return found || err != nil
}

// Ask implements [exchange.Peer]. It is not called: see [process.ask].
func (u *upstream) Ask(context.Context, *mcp.Message) (*mcp.Message, error) {
	return nil, errNoQuestions
}

// welcome sends s the acknowledgement, with the part of its filter that the server honors.
// The caller holds mu.
func (u *upstream) welcome(s *subscriber) {
	s.told, s.hears = true, s.wants.Intersection(u.honors)
	if params, err := mcp.Set(u.ack, s.hears.JSON(), "notifications"); err == nil {
		s.tell(mcp.NotificationSubscribed, params)
	}
}

// tell sends s a notification with the client's own subscription id.
func (s *subscriber) tell(method string, params json.RawMessage) {
	params, err := mcp.Set(params, s.exchange.Request.ID.Raw(), "_meta", mcp.MetaSubscription)
	if err == nil {
		s.line.Notify(&mcp.Message{Method: method, Params: params})
	}
}

// refresh sends s a change notification for everything to which it is subscribed and that
// the server honors.
func (s *subscriber) refresh(honored wire.Filter) {
	both := s.hears.Intersection(honored)
	for _, change := range wire.ListChanges {
		if *both.List(change) {
			s.tell(change, nil)
		}
	}
	for _, uri := range both.ResourceSubscriptions {
		params, err := json.Marshal(map[string]string{"uri": uri})
		if err == nil {
			s.tell(mcp.NotificationResourceUpdated, params)
		}
	}
}
