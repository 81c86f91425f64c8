package translate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// listeners forwards the changes that a server of the session era reports to the
// subscriptions of stateless clients (MCP 2026-07-28, subscriptions/listen). The sessions
// of one pool share it. Each of them has it in its [exchange.Peer], see [unattributed].
type listeners struct {
	log *slog.Logger

	mu        sync.Mutex
	listeners map[*listener]struct{}
}

// watchCounts counts the subscriptions to each resource in one session.
type watchCounts struct {
	// changing is a semaphore. It is held while a count changes, and during the request
	// to the server that the first or last subscription to a resource requires.
	changing chan struct{}
	count    map[string]int
}

func newWatchCounts() *watchCounts {
	return &watchCounts{count: map[string]int{}, changing: make(chan struct{}, 1)}
}

// listener is one subscriptions/listen.
type listener struct {
	exchange *exchange.Exchange
	filter   wire.Filter

	mu           sync.Mutex
	acknowledged bool
	waiting      []*mcp.Message // received before the acknowledgement, at most maxWaiting
}

const maxWaiting = 64

// watchTime bounds one resources/subscribe request, and all resources/unsubscribe requests
// at the end of one subscription. Other subscriptions in the session wait meanwhile.
const watchTime = wire.FarewellTimeout

func newListeners(log *slog.Logger) *listeners {
	return &listeners{log: log, listeners: map[*listener]struct{}{}}
}

// listen serves one subscription until its client cancels it or the session s ends.
func (h *listeners) listen(ctx context.Context, s *upSession, x *exchange.Exchange) (*mcp.Message, error) {
	asked, _, err := wire.RequestedFilter(x)
	if err != nil {
		return nil, err
	}
	l := &listener{exchange: x, filter: s.offered(asked)}
	resources := l.filter.ResourceSubscriptions
	l.filter.ResourceSubscriptions = nil
	var watches []string
	defer func() { s.unsubscribe(x.Client, watches) }()
	h.add(l)
	defer h.remove(l)
	for _, uri := range resources {
		if slices.Contains(watches, uri) {
			continue
		}
		if err := s.subscribe(ctx, x.Client, uri); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			h.log.Debug("a resource is not subscribed to", "error", err)
			if errors.Is(err, context.DeadlineExceeded) {
				break // the acknowledgement and other subscriptions must not wait longer
			}
			continue
		}
		watches = append(watches, uri)
		h.want(l, watches)
	}
	l.acknowledge()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.Done():
		return nil, wire.ServerGone("the server ended, and the subscription with it; subscribe again")
	}
}

func (h *listeners) add(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = struct{}{}
}

func (h *listeners) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

func (h *listeners) want(l *listener, uris []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.filter.ResourceSubscriptions = slices.Clone(uris)
}

// acknowledge sends the acknowledgement, which contains the honoured filter, and then the
// notifications that were received before it.
func (l *listener) acknowledge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(mcp.NotificationSubscribed, json.RawMessage(`{"notifications":`+string(l.filter.JSON())+`}`))
	for _, m := range l.waiting {
		l.pass(m.Method, m.Params)
	}
	l.waiting, l.acknowledged = nil, true
}

// offered returns the part of the filter that the server's capabilities cover.
func (s *upSession) offered(f wire.Filter) wire.Filter {
	can := func(feature, what string) bool {
		raw, found, err := mcp.Lookup(s.capabilities, feature, what)
		return err == nil && found && string(raw) == "true"
	}
	f.ToolsListChanged = f.ToolsListChanged && can("tools", "listChanged")
	f.PromptsListChanged = f.PromptsListChanged && can("prompts", "listChanged")
	f.ResourcesListChanged = f.ResourcesListChanged && can("resources", "listChanged")
	if !can("resources", "subscribe") {
		f.ResourceSubscriptions = nil
	}
	return f
}

// subscribe counts one more subscription to a resource. For the first, it sends
// resources/subscribe to the server.
func (s *upSession) subscribe(ctx context.Context, client *exchange.Client, uri string) error {
	w := s.watched
	select {
	case w.changing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-w.changing }()
	if w.count[uri] == 0 {
		ctx, cancel := context.WithTimeout(ctx, watchTime)
		defer cancel()
		if err := s.tell(ctx, client, mcp.MethodResourcesSubscribe, uri); err != nil {
			return err
		}
	}
	w.count[uri]++
	return nil
}

// unsubscribe counts one subscription less to each resource. After the last, it sends
// resources/unsubscribe to the server.
func (s *upSession) unsubscribe(client *exchange.Client, uris []string) {
	if len(uris) == 0 {
		return
	}
	w := s.watched
	w.changing <- struct{}{}
	defer func() { <-w.changing }()
	ctx, cancel := context.WithTimeout(context.Background(), watchTime)
	defer cancel()
	for _, uri := range uris {
		if w.count[uri]--; w.count[uri] > 0 {
			continue
		}
		delete(w.count, uri)
		if !s.alive() {
			continue
		}
		if err := s.tell(ctx, client, mcp.MethodResourcesUnsubscribe, uri); err != nil {
			s.hub.log.Debug("the server was not told that a resource is not watched any more", "error", err)
		}
	}
}

// tell sends a request about a resource. An error response is returned as the error.
func (s *upSession) tell(ctx context.Context, client *exchange.Client, method, uri string) error {
	params, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return err
	}
	answer, err := s.Do(ctx, &exchange.Exchange{Client: client, Request: &mcp.Message{ID: mcp.IntID(0), Method: method, Params: params}})
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// send forwards a notification. Before the acknowledgement it queues the notification, and
// drops it when the queue is full.
func (l *listener) send(m *mcp.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acknowledged {
		l.pass(m.Method, m.Params)
	} else if len(l.waiting) < maxWaiting {
		l.waiting = append(l.waiting, m)
	}
}

// pass sends a notification with the id of this subscription.
func (l *listener) pass(method string, params json.RawMessage) {
	marked, err := mcp.Set(params, l.exchange.Request.ID.Raw(), "_meta", mcp.MetaSubscription)
	if err != nil {
		return // the client could not read these params either
	}
	wire.OrNoPeer(l.exchange.Peer).Notify(&mcp.Message{Method: method, Params: marked})
}

// Notify forwards a change to the subscriptions with a matching filter, and drops all other
// notifications.
func (h *listeners) Notify(m *mcp.Message) {
	if !wire.IsChange(m.Method) {
		return // in the stateless era, log messages belong to requests
	}
	h.mu.Lock()
	var to []*listener
	for l := range h.listeners {
		if l.filter.Matches(m) {
			to = append(to, l)
		}
	}
	h.mu.Unlock()
	for _, l := range to {
		l.send(m)
	}
}

// Ask rejects a server's request that belongs to no client's request: there is no client
// to send it to.
func (h *listeners) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, wire.NotDeclared(q)
}
