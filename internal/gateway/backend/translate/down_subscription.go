package translate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// subscription is one subscriptions/listen at the server.
type subscription struct {
	exchange.PeerDefaults
	room         *principalSession
	wanted       wire.Filter
	honoured     wire.Filter // set when acknowledged is closed
	since        time.Time
	stop         context.CancelFunc
	acknowledged chan struct{}
	once         sync.Once
	done         chan struct{}
	err          error // why it is over, set when done is closed
}

// begin returns a subscription that the server has acknowledged.
func (r *principalSession) begin(wanted wire.Filter) (*subscription, error) {
	s := &subscription{room: r, wanted: wanted, since: time.Now(), acknowledged: make(chan struct{}), done: make(chan struct{})}
	client := wire.OwnClient()
	client.Principal = r.principal
	x := &exchange.Exchange{Client: client, Peer: s, Request: &mcp.Message{
		ID: r.clients.newID(), Method: mcp.MethodSubscriptionsListen,
		Params: fmt.Appendf(nil, `{"_meta":{%s},"notifications":%s}`, wire.NewClientMeta(client), wanted.JSON()),
	}}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(r.ctx)
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
		case <-s.acknowledged: // and it ended at once
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

// errNoSubscriptions stands for the words of a server that does not know a method
// of which its session-era client has never heard.
var errNoSubscriptions = &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the server has no subscriptions"}

// errEnded: a server may end a subscription in good order.
var errEnded = wire.ServerGone("the server ended the subscription")

// Notify passes what the server says to those who want to hear it.
func (s *subscription) Notify(m *mcp.Message) {
	if m.Method == mcp.NotificationSubscribed {
		s.once.Do(func() {
			s.honoured, _, _ = wire.ParseFilter(m.Params) // what cannot be read is not honoured
			close(s.acknowledged)
		})
		return
	}
	params, err := mcp.Without(m.Params, func(key string) bool { return key == mcp.MetaSubscription }, "_meta")
	if err != nil {
		return // no client could read it either
	}
	s.room.tell(&mcp.Message{Method: m.Method, Params: params})
}

// Ask answers a question: a subscription has none.
func (s *subscription) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, wire.NotDeclared(q)
}

// tell passes a change to the sessions that want to hear of it.
func (r *principalSession) tell(m *mcp.Message) {
	if !wire.IsChange(m.Method) {
		return
	}
	if m.Method == mcp.NotificationToolsChanged && r.tools != nil {
		r.tools.Forget()
	}
	r.mu.Lock()
	var to []*downConn
	for c, in := range r.members {
		if in.Matches(m) {
			to = append(to, c)
		}
	}
	r.mu.Unlock()
	for _, c := range to {
		c.session.Notify(m)
	}
}
