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

// settleTime bounds the waits for a server to end a subscription and to
// acknowledge one, while others who want to subscribe wait.
const settleTime = 500 * time.Millisecond

// subscriptions makes one subscription at a process out of those of its clients.
// A server may have any number of them by the protocol, but a stdio server knows
// one client, and the official Go SDK's (v1.8.0) keeps one subscription for it:
// a second one silences the first, and the end of either ends both. So there is
// one for everything that anybody wants; it is replaced when somebody wants
// more, and each client hears what it asked for.
type subscriptions struct {
	process *process
	turn    chan struct{} // held by who replaces the one at the server

	mu      sync.Mutex
	members map[*subscriber]struct{}
	current *upstream                 // nil for none
	last    *correlate.PendingRequest // the newest that was cancelled, which may not have ended yet
}

// subscriber is one client's subscription.
type subscriber struct {
	exchange *exchange.Exchange
	wants    wire.Filter
	line     *wire.CallPeer
	told     bool        // it has had the acknowledgement
	hears    wire.Filter // what that named
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
	newest        *subscriber     // because of whom it was made; nil when it was restored
	ack           json.RawMessage // params of its acknowledgement, nil before
	honors        wire.Filter
	replaced      bool
	acked         chan struct{} // closed with ack
	gone          chan struct{} // closed with replaced
	over          chan struct{} // closed when the server has ended it
}

func newSubscriptions(p *process) *subscriptions {
	return &subscriptions{process: p, turn: make(chan struct{}, 1), members: map[*subscriber]struct{}{}}
}

// play plays out a listen request; sent reports whether the server may have got
// it.
func (h *subscriptions) play(ctx context.Context, x *exchange.Exchange, wants wire.Filter) (answer *mcp.Message, sent bool, err error) {
	if _, _, err := h.process.pending.Hints(x); err != nil {
		return nil, false, err // before it is among the others'
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

// admit makes s a member. The caller holds the turn.
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

// restore makes the subscription at the server for its members when there is none:
// the server did not want the newest one's, or could not be told of it. If that fails
// they are told. The caller holds the turn.
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

// renew makes the subscription anew at the server for all members. It waits a
// little for the end of the one before, and for the acknowledgement.
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
	// Of others, too: it does not end with who has made it necessary.
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

// withdraw gives up the subscription at the server; what it returns is to be
// cancelled there. The caller holds mu.
func (h *subscriptions) withdraw() *correlate.PendingRequest {
	up := h.current
	if up == nil {
		return nil
	}
	up.replaced, h.current, h.last = true, nil, up.flight
	close(up.gone)
	return up.flight
}

// leave ends s's part; the last one ends it at the server.
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

// watch waits for the server to end the subscription.
func (u *upstream) watch() {
	select {
	case <-u.flight.Done:
	case <-u.gone: // a server need not answer what was cancelled
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

// ended tells the members whom it concerns that the server has ended the subscription.
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
		// A refusal is for who wanted more than the others.
		if u.ack == nil && u.flight.Err == nil && u.flight.Answer.Error != nil && u.newest != nil && s != u.newest && s.told {
			continue
		}
		delete(h.members, s)
		s.end <- outcomeOf{u.flight.Answer, u.flight.Err}
	}
}

// Notify passes a message of the subscription to those whom it concerns.
func (u *upstream) Notify(m *mcp.Message) {
	h := u.subscriptions
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.replaced || m.Method == mcp.NotificationProgress { // which is nobody's
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
	u.honors, _, _ = wire.ParseFilter(m.Params) // what cannot be read is not honored
	for s := range h.members {
		if s.told {
			s.refresh(u.honors) // it may have missed something in between
		} else {
			u.welcome(s)
		}
	}
	close(u.acked)
}

// unmarked passes on a change that names no subscription, and reports whether there
// is one. Every message of a subscription must name it (MCP 2026-07-28, Subscriptions),
// but over stdio mcp-go's (v1.2.1) do not, and here they can only be about this one.
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

// isMarked: m names a subscription, or cannot be read.
func isMarked(m *mcp.Message) bool {
	_, found, err := mcp.Lookup(m.Params, "_meta", mcp.MetaSubscription)
	return found || err != nil
}

// Ask is not called: see [process.ask].
func (u *upstream) Ask(context.Context, *mcp.Message) (*mcp.Message, error) {
	return nil, errNoQuestions
}

// welcome acknowledges s's subscription with what of it is honored. The caller
// holds mu.
func (u *upstream) welcome(s *subscriber) {
	s.told, s.hears = true, s.wants.Intersection(u.honors)
	if params, err := mcp.Set(u.ack, s.hears.JSON(), "notifications"); err == nil {
		s.tell(mcp.NotificationSubscribed, params)
	}
}

// tell passes a notification with the client's own subscription id.
func (s *subscriber) tell(method string, params json.RawMessage) {
	params, err := mcp.Set(params, s.exchange.Request.ID.Raw(), "_meta", mcp.MetaSubscription)
	if err == nil {
		s.line.Notify(&mcp.Message{Method: method, Params: params})
	}
}

// refresh says that everything may have changed.
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
