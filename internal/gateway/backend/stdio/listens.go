package stdio

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// replaceTime bounds the wait for the server to end a subscription, and to acknowledge one.
// Other clients that subscribe wait meanwhile.
const replaceTime = 500 * time.Millisecond

// listens combines the subscriptions/listen requests of a process's clients into one at the
// server. The protocol allows any number of them. But a stdio server has one client, and a
// server of the official Go SDK (v1.8.0) keeps one subscription for it: after a second one,
// the first receives nothing, and the end of either ends both. So the subscription at the
// server is the union of the clients' filters. It is replaced when a client requests more
// than it covers, and each client receives what it requested.
type listens struct {
	*requests
	work   *wire.Group
	pacer  *pacer
	turn   chan struct{} // held while the subscription at the server is replaced
	fanout subscribe.Fanout[*listen]

	mu      sync.Mutex                // taken before that of fanout
	current *upstream                 // nil for none
	last    *correlate.PendingRequest // the latest cancelled one, which may not have ended yet
}

// listen is the subscriptions/listen request of one client.
type listen struct {
	exchange     *exchange.Exchange
	subscription *subscribe.Subscription[*listen]
	end          chan listenOutcome // holds one
	slow         atomic.Bool        // see [paced]
}

type listenOutcome struct {
	answer *mcp.Message
	err    error
}

// upstream is the subscription at the server.
type upstream struct {
	exchange.PeerDefaults
	listens  *listens
	pending  *correlate.PendingRequest
	covers   subscribe.Filter
	newest   *listen // the one for which it was opened; nil if it was restored
	ack      []byte  // params of its acknowledgement, nil before
	honors   subscribe.Filter
	replaced bool
	acked    chan struct{} // closed when ack is set
	gone     chan struct{} // closed when replaced is set
	over     chan struct{} // closed when the server has ended it
}

func newListens(r *requests, work *wire.Group, pacer *pacer) *listens {
	return &listens{requests: r, work: work, pacer: pacer, turn: make(chan struct{}, 1)}
}

// do adds the listen request x to the subscription and waits for its response. sent reports
// whether the server may have received it.
func (h *listens) do(ctx context.Context, x *exchange.Exchange, filter subscribe.Filter) (answer *mcp.Message, sent bool, err error) {
	peer := wire.NewCallPeer(x.Peer)
	defer peer.Detach()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	case <-h.lifetime.Done():
		return nil, false, context.Cause(h.lifetime)
	}
	l, err := h.add(ctx, x, peer, filter)
	<-h.turn
	if err != nil {
		return nil, false, err
	}
	select {
	case o := <-l.end:
		if o.answer != nil {
			o.answer = &mcp.Message{ID: x.Request.ID, Result: o.answer.Result, Error: o.answer.Error}
		}
		return o.answer, true, o.err
	case <-ctx.Done():
		h.remove(l)
		return nil, true, context.Cause(ctx)
	}
}

// add adds the subscription of x and replaces the one at the server unless that covers it.
// After an error the subscription is removed. The caller holds turn.
func (h *listens) add(ctx context.Context, x *exchange.Exchange, peer exchange.Peer, filter subscribe.Filter) (*listen, error) {
	l := &listen{exchange: x, end: make(chan listenOutcome, 1)}
	h.mu.Lock()
	var err error
	if l.subscription, err = h.fanout.AddListen(l, peer, x.Request.ID, filter); err != nil {
		h.mu.Unlock()
		return nil, err
	}
	if up := h.current; up != nil && up.ack != nil && up.covers.Includes(filter) {
		l.subscription.Acknowledge(up.ack, up.honors)
		h.mu.Unlock()
		return l, nil
	}
	h.mu.Unlock()
	if err = h.renew(ctx, l); err != nil {
		h.fanout.Remove(l.subscription)
	}
	h.restore(ctx)
	if err != nil {
		h.remove(l)
	}
	return l, err
}

// restore opens a subscription at the server if there are clients but no subscription: the
// server rejected or ended the last one, or it could not be sent. If that fails, the
// requests of all clients end with the error. The caller holds turn.
func (h *listens) restore(ctx context.Context) {
	h.mu.Lock()
	missing := h.current == nil && len(h.fanout.All()) > 0
	h.mu.Unlock()
	if !missing {
		return
	}
	err := h.renew(ctx, nil)
	if err == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.fanout.All() {
		h.end(s.Owner, nil, err)
	}
}

// end ends the request of one client. The caller holds mu.
func (h *listens) end(l *listen, answer *mcp.Message, err error) {
	h.fanout.Remove(l.subscription)
	l.end <- listenOutcome{answer, err}
}

// renew replaces the subscription at the server by one for all clients. It waits for the end
// of the previous one and for the acknowledgement, each for at most replaceTime.
func (h *listens) renew(ctx context.Context, newest *listen) error {
	h.mu.Lock()
	old := h.withdraw()
	last := h.last
	all := h.fanout.All()
	up := &upstream{
		listens: h, newest: newest, covers: h.fanout.Union(),
		acked: make(chan struct{}), gone: make(chan struct{}), over: make(chan struct{}),
	}
	h.mu.Unlock()
	if old != nil {
		h.cancel(old)
	}
	if last != nil {
		h.waitFor(ctx, last.Done, nil)
	}
	template := newest
	if template == nil {
		if len(all) == 0 {
			return nil
		}
		template = all[0].Owner
	}
	request := template.exchange.Request
	params, err := mcp.Set(request.Params, up.covers.JSON(), "notifications")
	if err != nil {
		return err
	}
	f, out, err := h.pending.Add(&exchange.Exchange{Client: template.exchange.Client, Meta: template.exchange.Meta,
		Request: &mcp.Message{ID: request.ID, Method: request.Method, Params: params}}, up)
	if err != nil {
		return err
	}
	up.pending = f
	h.mu.Lock()
	h.current = up
	h.mu.Unlock()
	// The subscription is also that of other clients, so it does not end with ctx.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.FarewellTimeout)
	defer cancel()
	if err = h.send(sending, out); err == nil && !h.work.Go(up.watch) {
		err = context.Cause(h.lifetime)
	}
	if err != nil {
		h.mu.Lock()
		if h.current == up {
			h.current = nil
		}
		h.mu.Unlock()
		h.pending.Remove(f)
		return err
	}
	h.waitFor(ctx, up.acked, up.over)
	return nil
}

// waitFor waits until one of the channels is closed, for at most replaceTime.
func (h *listens) waitFor(ctx context.Context, one, other <-chan struct{}) {
	timer := time.NewTimer(replaceTime)
	defer timer.Stop()
	select {
	case <-one:
	case <-other:
	case <-timer.C:
	case <-ctx.Done():
	case <-h.lifetime.Done():
	}
}

// withdraw removes the subscription at the server and returns its request, which the caller
// has to cancel; nil for none. The caller holds mu.
func (h *listens) withdraw() *correlate.PendingRequest {
	up := h.current
	if up == nil {
		return nil
	}
	up.replaced, h.current, h.last = true, nil, up.pending
	close(up.gone)
	return up.pending
}

// remove removes the request of one client. Without clients, the subscription at the server
// is cancelled.
func (h *listens) remove(l *listen) {
	h.mu.Lock()
	var f *correlate.PendingRequest
	if h.fanout.Remove(l.subscription) {
		f = h.withdraw()
	}
	h.mu.Unlock()
	if f != nil {
		h.cancel(f)
	}
}

// notifyUnmarked passes a change that carries no subscription id to the clients, and reports
// whether there is a subscription. Every message of a subscription must carry its id (MCP
// 2026-07-28, Subscriptions). Those of mcp-go (v1.2.1) over stdio do not, and can only
// belong to the one subscription.
func (h *listens) notifyUnmarked(m *mcp.Message) bool {
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

// watch waits for the server to end the subscription, and restores it if clients remain.
func (u *upstream) watch() {
	select {
	case <-u.pending.Done:
	case <-u.gone: // a server need not respond to a cancelled request
		return
	}
	u.end()
	h := u.listens
	select {
	case h.turn <- struct{}{}:
		h.restore(context.Background())
		<-h.turn
	case <-h.lifetime.Done():
	}
}

// end ends the clients' requests with the response that ended the subscription.
func (u *upstream) end() {
	h := u.listens
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(u.over)
	if u.replaced {
		return
	}
	h.current = nil
	refused := u.ack == nil && u.pending.Err == nil && u.pending.Answer.Error != nil
	for _, s := range h.fanout.All() {
		// A refusal concerns the newest request, because of which more was requested. Those
		// that were acknowledged before stay.
		if refused && u.newest != nil && s.Owner != u.newest && s.Acknowledged() {
			continue
		}
		h.end(s.Owner, u.pending.Answer, u.pending.Err)
	}
}

// Notify passes a message of the subscription to the clients whose filters match it.
func (u *upstream) Notify(m *mcp.Message) {
	h := u.listens
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case u.replaced || m.Method == mcp.NotificationProgress: // progress belongs to no client
	case m.Method != mcp.NotificationSubscribed:
		h.fanout.Notify(m)
		if all := h.fanout.All(); len(all) == 1 {
			h.pacer.received(all[0].Owner.exchange.Peer, &all[0].Owner.slow)
		}
	case u.ack == nil:
		u.ack = append([]byte{}, m.Params...)
		u.honors, _, _ = subscribe.ParseFilter(m.Params) // empty if it cannot be parsed
		for _, s := range h.fanout.All() {
			if s.Acknowledged() {
				s.Refresh(u.honors) // changes may have been lost meanwhile
			} else {
				s.Acknowledge(u.ack, u.honors)
			}
		}
		close(u.acked)
	}
}

// Ask implements [exchange.Peer]. It is not called: see [process.ask].
func (u *upstream) Ask(context.Context, *mcp.Message) (*mcp.Message, error) {
	return nil, errNoServerRequests
}
