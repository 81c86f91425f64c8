package stdio

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// preferences combines the log levels and subscriptions of the sessions of a shared process.
// A server keeps one level and one set of subscriptions for its one client. So the server
// receives the most verbose level and every subscription of the sessions, and each session
// receives what it requested. No session has to move to another process, where it would lose
// what the server keeps in memory.
type preferences struct {
	*requests
	pacer *pacer
	// settingLevel is a semaphore, held while a level is sent to the server.
	settingLevel chan struct{}
	resources    *subscribe.Resources
	sessions     subscribe.Fanout[*preference]
}

// preference holds the level and the subscriptions of one session.
type preference struct {
	conn         *conn
	subscription *subscribe.Subscription[*preference]
}

func newPreferences(r *requests, pacer *pacer) *preferences {
	return &preferences{requests: r, pacer: pacer, settingLevel: make(chan struct{}, 1), resources: subscribe.NewResources()}
}

// isPreference reports whether the request changes the level or a subscription.
func isPreference(method string) bool {
	switch method {
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return true
	}
	return false
}

// add adds the session c, which receives the changes of all lists.
func (p *preferences) add(c *conn) *preference {
	own := &preference{conn: c}
	own.subscription = p.sessions.AddSession(own, c.session,
		subscribe.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true})
	return own
}

// remove removes a session, and ends its subscriptions at the server.
func (p *preferences) remove(own *preference) {
	p.sessions.Remove(own.subscription)
	uris := own.uris()
	if len(uris) == 0 {
		return
	}
	p.farewells.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
		defer cancel()
		for _, uri := range uris {
			request := ownRequest(own.conn.client, mcp.MethodResourcesUnsubscribe, "uri", uri)
			if _, err := p.unsubscribe(ctx, own, request, uri); err != nil && p.lifetime.Err() == nil {
				p.log.Debug("a subscription of a closed session was not ended", "error", err)
				return
			}
		}
	})
}

// do sends a request that changes the preference of a session. Two requests that change the
// level are sent one after the other, and so are those that change a subscription.
func (p *preferences) do(ctx context.Context, own *preference, x *exchange.Exchange) (*mcp.Message, error) {
	if x.Request.Method == mcp.MethodSetLevel {
		return p.setLevel(ctx, own, x)
	}
	uri, found, err := mcp.LookupString(x.Request.Params, "uri")
	if err != nil {
		return nil, err
	}
	if !found { // the server rejects it
		answer, _, err := p.roundTrip(ctx, x)
		return answer, err
	}
	if x.Request.Method == mcp.MethodResourcesUnsubscribe {
		return p.unsubscribe(ctx, own, x, uri)
	}
	return p.subscribe(ctx, own, x, uri)
}

// setLevel sends the most verbose of the levels that the session requests and that the other
// sessions have set.
func (p *preferences) setLevel(ctx context.Context, own *preference, x *exchange.Exchange) (*mcp.Message, error) {
	select {
	case p.settingLevel <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.settingLevel }()
	level, _, err := mcp.LookupString(x.Request.Params, "level")
	if err != nil {
		return nil, err
	}
	most := level
	if mcp.LogRank(level) >= 0 { // otherwise the server rejects it
		for _, s := range p.sessions.All() {
			if set := s.Owner.conn.logLevel(); s.Owner != own && set != "" && mcp.LogRank(set) < mcp.LogRank(most) {
				most = set
			}
		}
	}
	sent := *x
	if most != level {
		request := *x.Request
		if request.Params, err = mcp.Set(request.Params, json.RawMessage(`"`+most+`"`), "level"); err != nil {
			return nil, err
		}
		sent.Request = &request
	}
	answer, _, err := p.roundTrip(ctx, &sent)
	if err == nil && answer.Error == nil && mcp.LogRank(level) >= 0 {
		own.conn.setLogLevel(level)
	}
	return answer, err
}

// subscribe sends the request for a subscription of the session, also when another session
// has the same: the server may send the state of the resource in response to each.
func (p *preferences) subscribe(ctx context.Context, own *preference, x *exchange.Exchange, uri string) (answer *mcp.Message, err error) {
	added, err := own.add(uri)
	if err != nil {
		return nil, err
	}
	if !added {
		answer, _, err = p.roundTrip(ctx, x)
		return answer, err
	}
	err = p.resources.Add(ctx, uri, func(bool) (err error) {
		answer, err = p.accepted(ctx, x)
		return err
	})
	if err != nil {
		own.drop(uri)
	}
	if answer != nil {
		return answer, nil
	}
	return nil, err
}

// unsubscribe ends a subscription of the session. The request is sent to the server only if
// no other session has the same subscription.
func (p *preferences) unsubscribe(ctx context.Context, own *preference, x *exchange.Exchange, uri string) (answer *mcp.Message, err error) {
	done := mcp.NewResult(x.Request.ID, json.RawMessage(`{}`))
	if !own.drop(uri) { // the server may reject it
		if slices.Contains(p.sessions.Union().ResourceSubscriptions, uri) {
			return done, nil
		}
		answer, _, err = p.roundTrip(ctx, x)
		return answer, err
	}
	err = p.resources.Remove(ctx, uri, func() (err error) {
		answer, err = p.accepted(ctx, x)
		return err
	})
	if err != nil {
		_, _ = own.add(uri) // there is room: it was dropped just before
	}
	switch {
	case answer != nil:
		return answer, nil
	case err != nil:
		return nil, err
	}
	return done, nil
}

// accepted sends the request of x. An error response is returned as the error as well.
func (p *preferences) accepted(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	answer, _, err := p.roundTrip(ctx, x)
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	return answer, err
}

// notify passes a notification that belongs to no request to the sessions that it concerns:
// a change to those whose filter matches it, a log message to those that set a level at or
// below its own. Any other is dropped, since it cannot be attributed.
func (p *preferences) notify(m *mcp.Message) {
	all := p.sessions.All()
	if len(all) == 1 {
		defer p.pacer.received(all[0].Owner.conn.session, &all[0].Owner.conn.slow)
	}
	switch {
	case subscribe.IsChange(m.Method) || strings.HasSuffix(m.Method, "/list_changed"):
		p.sessions.Notify(m)
	case m.Method == mcp.NotificationMessage:
		for _, s := range all {
			if c := s.Owner.conn; mcp.GetsLog(m, c.logLevel()) {
				c.session.Notify(m)
			}
		}
	default:
		p.log.Debug("a notification of a shared process is dropped because it cannot be attributed", "method", wire.Printable(m.Method))
	}
}

// uris returns the resources to which the session is subscribed.
func (own *preference) uris() []string { return own.subscription.Requested().ResourceSubscriptions }

// add adds a resource, unless the session is subscribed to it. The error is an *mcp.Error
// for too many resources.
func (own *preference) add(uri string) (added bool, err error) {
	err = own.subscription.Change(func(f *subscribe.Filter) error {
		if added = !slices.Contains(f.ResourceSubscriptions, uri); added {
			f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
		}
		return nil
	})
	return added, err
}

// drop removes a resource, and reports whether the session was subscribed to it.
func (own *preference) drop(uri string) (dropped bool) {
	_ = own.subscription.Change(func(f *subscribe.Filter) error { // fewer resources are never too many
		before := len(f.ResourceSubscriptions)
		f.ResourceSubscriptions = slices.DeleteFunc(f.ResourceSubscriptions, func(u string) bool { return u == uri })
		dropped = len(f.ResourceSubscriptions) < before
		return nil
	})
	return dropped
}

// restore sends the level and the subscriptions of the session to the process to which it
// moves.
func (own *preference) restore(ctx context.Context, to *requests) {
	ctx, cancel := context.WithTimeout(ctx, wire.FarewellTimeout)
	defer cancel()
	send := func(x *exchange.Exchange) {
		if _, _, err := to.roundTrip(ctx, x); err != nil {
			to.log.Warn("a log level or subscription did not move with its session", "error", err)
		}
	}
	client := own.conn.client
	if level := own.conn.logLevel(); level != "" {
		send(ownRequest(client, mcp.MethodSetLevel, "level", level))
	}
	for _, uri := range own.uris() {
		send(ownRequest(client, mcp.MethodResourcesSubscribe, "uri", uri))
	}
}

// ownRequest returns a request of the gateway's own with one parameter.
func ownRequest(client *exchange.Client, method, key, value string) *exchange.Exchange {
	params, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		panic(err) // cannot happen: the map holds strings only
	}
	return &exchange.Exchange{Client: client, Request: &mcp.Message{ID: mcp.IntID(0), Method: method, Params: params}}
}

// leveled drops log messages below the level that its session set: in a shared process
// the server logs for the most verbose session.
type leveled struct {
	exchange.Peer
	session *conn
}

// Notify implements [exchange.Peer].
func (l leveled) Notify(m *mcp.Message) {
	if m.Method == mcp.NotificationMessage {
		if level := l.session.logLevel(); level != "" && !mcp.GetsLog(m, level) {
			return
		}
	}
	l.Peer.Notify(m)
}
