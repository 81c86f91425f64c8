package translate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// upChanges forwards the changes that a server of the session era reports to the
// subscriptions of stateless clients (MCP 2026-07-28, subscriptions/listen). The sessions
// of one pool share it. Each of them has it in its [exchange.Peer], see [unattributed].
type upChanges struct {
	log    *slog.Logger
	fanout subscribe.Fanout[*exchange.Exchange]
}

// resourceTime bounds one resources/subscribe request, and all resources/unsubscribe
// requests at the end of one subscription. Other subscriptions in the session wait
// meanwhile.
const resourceTime = wire.FarewellTimeout

// listen serves one subscription until its client cancels it or the session s ends.
func (h *upChanges) listen(ctx context.Context, s *upSession, x *exchange.Exchange) (*mcp.Message, error) {
	requested, _, err := subscribe.RequestedFilter(x)
	if err != nil {
		return nil, err
	}
	filter := s.offered(requested)
	resources := filter.ResourceSubscriptions
	filter.ResourceSubscriptions = nil
	subscription, err := h.fanout.AddListen(x, x.Peer, x.Request.ID, filter)
	if err != nil {
		return nil, err
	}
	defer func() { s.unsubscribe(x.Client, subscription.Requested().ResourceSubscriptions) }()
	defer h.fanout.Remove(subscription)
	if err := s.subscribeAll(ctx, subscription, resources); err != nil {
		return nil, err
	}
	subscription.Acknowledge(json.RawMessage(`{}`), subscription.Requested())
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.Done():
		return nil, wire.ServerGone("the server ended, and the subscription with it; subscribe again")
	}
}

// subscribeAll adds the resources to the subscription, except those that the server
// rejects. The error is that of ctx.
func (s *upSession) subscribeAll(ctx context.Context, to *subscribe.Subscription[*exchange.Exchange], resources []string) error {
	for _, uri := range resources {
		if slices.Contains(to.Requested().ResourceSubscriptions, uri) {
			continue
		}
		err := s.subscribe(ctx, to.Owner.Client, uri)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = to.Change(func(f *subscribe.Filter) error {
				f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
				return nil
			})
			if err != nil {
				s.unsubscribe(to.Owner.Client, []string{uri})
			}
		}
		if err != nil {
			s.changes.log.Debug("a resource is not subscribed to", "error", err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil // the acknowledgement and other subscriptions must not wait longer
		}
	}
	return nil
}

// offered returns the part of the filter that the server's capabilities cover.
func (s *upSession) offered(f subscribe.Filter) subscribe.Filter {
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

// subscribe adds a subscription to a resource. For the first one in the session, it sends
// resources/subscribe to the server.
func (s *upSession) subscribe(ctx context.Context, client *exchange.Client, uri string) error {
	return s.resources.Add(ctx, uri, func(first bool) error {
		if !first {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, resourceTime)
		defer cancel()
		return s.requestResource(ctx, client, mcp.MethodResourcesSubscribe, uri)
	})
}

// unsubscribe removes a subscription to each resource. For the last one in the session, it
// sends resources/unsubscribe to the server.
func (s *upSession) unsubscribe(client *exchange.Client, uris []string) {
	ctx, cancel := context.WithTimeout(context.Background(), resourceTime)
	defer cancel()
	for _, uri := range uris {
		// The requests that Remove waits for have time limits of their own.
		_ = s.resources.Remove(context.Background(), uri, func() error {
			if !s.alive() {
				return nil
			}
			if err := s.requestResource(ctx, client, mcp.MethodResourcesUnsubscribe, uri); err != nil {
				s.changes.log.Debug("resources/unsubscribe failed", "error", err)
			}
			return nil
		})
	}
}

// requestResource sends a request about a resource. An error response is returned as the
// error.
func (s *upSession) requestResource(ctx context.Context, client *exchange.Client, method, uri string) error {
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

// Notify forwards a change to the subscriptions with a matching filter, and drops all other
// notifications: in the stateless era, log messages belong to requests.
func (h *upChanges) Notify(m *mcp.Message) {
	if subscribe.IsChange(m.Method) {
		h.fanout.Notify(m)
	}
}

// Ask rejects a server's request that belongs to no client's request: there is no client
// to send it to.
func (h *upChanges) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, wire.NotDeclared(q)
}
