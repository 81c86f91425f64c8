package translate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// subscription is one subscriptions/listen at the server.
type subscription struct {
	exchange.PeerDefaults
	principal    *principalSession
	requested    subscribe.Filter
	honoured     subscribe.Filter // set when acknowledged is closed
	since        time.Time
	stop         context.CancelFunc
	acknowledged chan struct{}
	once         sync.Once
	done         chan struct{}
	err          error // the reason for the end, set when done is closed
}

// begin sends a subscriptions/listen and returns the subscription when the server has
// acknowledged it.
func (r *principalSession) begin(requested subscribe.Filter) (*subscription, error) {
	s := &subscription{principal: r, requested: requested, since: time.Now(), acknowledged: make(chan struct{}), done: make(chan struct{})}
	client := wire.OwnClient()
	client.Principal = r.principal
	x := &exchange.Exchange{Client: client, Peer: s, Request: &mcp.Message{
		ID: r.clients.newID(), Method: mcp.MethodSubscriptionsListen,
		Params: fmt.Appendf(nil, `{"_meta":{%s},"notifications":%s}`, wire.NewClientMeta(client), requested.JSON()),
	}}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(r.callers.Attach(r.ctx))
	if !r.work.Go(func() {
		defer close(s.done)
		defer s.stop()
		answer, err := r.clients.send(ctx, x)
		if err == nil && answer.Error != nil {
			err = answer.Error
		}
		if e, ok := errors.AsType[*mcp.Error](err); ok && e.Code == mcp.CodeMethodNotFound {
			err = errNoSubscriptions
		}
		s.err = cmp.Or(err, errEnded)
	}) {
		s.stop()
		return nil, wire.ErrStopped
	}
	timer := time.NewTimer(acknowledgeTime)
	defer timer.Stop()
	var err error
	select {
	case <-s.acknowledged:
		return s, nil
	case <-s.done:
		select {
		case <-s.acknowledged: // it ended right after the acknowledgement
			return s, nil
		default:
		}
		err = s.err
	case <-timer.C:
		err = wire.ServerGone("the server did not acknowledge the subscription in time")
	case <-r.ctx.Done():
		err = r.ctx.Err()
	}
	s.stop()
	return nil, err
}

// errNoSubscriptions replaces the server's error for an unknown method: a client of the
// session era did not send subscriptions/listen.
var errNoSubscriptions = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the server has no subscriptions"}

// errEnded is the reason for the end when the server ended the subscription without an
// error.
var errEnded = wire.ServerGone("the server ended the subscription")

// Notify handles the acknowledgement, and forwards changes to the sessions.
func (s *subscription) Notify(m *mcp.Message) {
	if m.Method == mcp.NotificationSubscribed {
		s.once.Do(func() {
			s.honoured, _, _ = subscribe.ParseFilter(m.Params) // empty if it cannot be read
			close(s.acknowledged)
		})
		return
	}
	params, err := mcp.Without(m.Params, func(key string) bool { return key == mcp.MetaSubscription }, "_meta")
	if err != nil {
		return // no client could read these params either
	}
	s.principal.forward(&mcp.Message{Method: m.Method, Params: params})
}

// Ask rejects a request of the server: a subscription has none.
func (s *subscription) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, wire.NotDeclared(q)
}

// forward forwards a change to the sessions with a matching filter. A change of the tools
// also clears the cache of tools.
func (r *principalSession) forward(m *mcp.Message) {
	if !subscribe.IsChange(m.Method) {
		return
	}
	if m.Method == mcp.NotificationToolsChanged && r.tools != nil {
		r.tools.Forget()
	}
	r.fanout.Notify(m)
}
