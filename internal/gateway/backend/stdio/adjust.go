package stdio

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A server keeps one log level and one set of subscriptions for its one client. In a shared
// process the gateway keeps them for each session: the server receives the most verbose
// level and every subscription of its sessions, and each session receives what it
// requested. No session has to move to another process, where it would lose what the server
// keeps in memory.

// preferences are those of one session in a shared process. They are guarded by conn.mu.
type preferences struct {
	level string   // "" before the first logging/setLevel
	uris  []string // resources with a subscription
}

// isAdjustment reports whether the request changes preferences.
func isAdjustment(method string) bool {
	switch method {
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return true
	}
	return false
}

// adjust sends a request that changes the preferences of c, whose process is p, which is
// shared. Requests of one process are sent one after the other.
func (p *process) adjust(ctx context.Context, c *conn, x *exchange.Exchange) (*mcp.Message, error) {
	select {
	case p.adjusting <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.closing:
		return nil, p.why
	}
	defer func() { <-p.adjusting }()
	if x.Request.Method == mcp.MethodSetLevel {
		return p.setLevel(ctx, c, x)
	}
	uri, found, err := mcp.LookupString(x.Request.Params, "uri")
	if err != nil {
		return nil, err
	}
	if !found { // the server rejects it
		answer, _, err := p.play(ctx, x)
		return answer, err
	}
	if x.Request.Method == mcp.MethodResourcesUnsubscribe {
		return p.unsubscribe(ctx, c, x, uri)
	}
	if p.subscribed() >= wire.MaxWatched {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resources are subscribed to already"}
	}
	answer, _, err := p.play(ctx, x)
	if err == nil && answer.Error == nil {
		c.prefer(func(own *preferences) {
			if !slices.Contains(own.uris, uri) {
				own.uris = append(own.uris, uri)
			}
		})
	}
	return answer, err
}

// setLevel sends the most verbose of the levels that c requests and that the other sessions
// of p have set.
func (p *process) setLevel(ctx context.Context, c *conn, x *exchange.Exchange) (*mcp.Message, error) {
	level, _, err := mcp.LookupString(x.Request.Params, "level")
	if err != nil {
		return nil, err
	}
	most := level
	if mcp.LogRank(level) >= 0 { // otherwise the server rejects it
		for _, other := range p.others(c) {
			if set := other.preferences().level; set != "" && mcp.LogRank(set) < mcp.LogRank(most) {
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
	answer, _, err := p.play(ctx, &sent)
	if err == nil && answer.Error == nil && mcp.LogRank(level) >= 0 {
		c.prefer(func(own *preferences) { own.level = level })
	}
	return answer, err
}

// unsubscribe ends a subscription of c. The request is sent to the server only if no other
// session has the same subscription.
func (p *process) unsubscribe(ctx context.Context, c *conn, x *exchange.Exchange, uri string) (*mcp.Message, error) {
	drop := func(own *preferences) {
		own.uris = slices.DeleteFunc(own.uris, func(u string) bool { return u == uri })
	}
	for _, other := range p.others(c) {
		if slices.Contains(other.preferences().uris, uri) {
			c.prefer(drop)
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
		}
	}
	answer, _, err := p.play(ctx, x)
	if err == nil && answer.Error == nil {
		c.prefer(drop)
	}
	return answer, err
}

// forget ends the subscriptions of c, which left p, at the server.
func (p *process) forget(c *conn) {
	if len(c.preferences().uris) == 0 {
		return
	}
	p.farewells.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
		defer cancel()
		for _, uri := range c.preferences().uris {
			params, err := json.Marshal(map[string]string{"uri": uri})
			if err != nil {
				continue
			}
			x := &exchange.Exchange{Client: c.client, Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodResourcesUnsubscribe, Params: params}}
			if _, err := p.adjust(ctx, c, x); err != nil && !p.over() {
				p.log.Debug("a subscription of a closed session was not ended", "error", err)
				return
			}
		}
	})
}

// restore sends the preferences of c to p, to which c moves.
func (p *process) restore(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, wire.FarewellTimeout)
	defer cancel()
	send := func(method string, params map[string]string) {
		raw, err := json.Marshal(params)
		if err == nil {
			_, _, err = p.play(ctx, &exchange.Exchange{Client: c.client, Request: &mcp.Message{ID: mcp.IntID(0), Method: method, Params: raw}})
		}
		if err != nil {
			p.log.Warn("a log level or subscription did not move with its session", "error", err)
		}
	}
	own := c.preferences()
	if own.level != "" {
		send(mcp.MethodSetLevel, map[string]string{"level": own.level})
	}
	for _, uri := range own.uris {
		send(mcp.MethodResourcesSubscribe, map[string]string{"uri": uri})
	}
}

// prefer changes the preferences of c.
func (c *conn) prefer(change func(*preferences)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.own)
}

// preferences returns a copy of the preferences of c.
func (c *conn) preferences() preferences {
	c.mu.Lock()
	defer c.mu.Unlock()
	return preferences{level: c.own.level, uris: slices.Clone(c.own.uris)}
}

// all returns the sessions of p.
func (p *process) all() []*conn { return p.others(nil) }

// others returns the sessions of p without c.
func (p *process) others(c *conn) []*conn {
	p.backend.mu.Lock()
	defer p.backend.mu.Unlock()
	out := make([]*conn, 0, len(p.sessions))
	for other := range p.sessions {
		if other != c {
			out = append(out, other)
		}
	}
	return out
}

// subscribed counts the subscriptions of all sessions.
func (p *process) subscribed() (n int) {
	for _, c := range p.all() {
		n += len(c.preferences().uris)
	}
	return n
}

// notifySessions passes a notification of a shared process that belongs to no request to
// the sessions that it concerns: a change of a list to all, an update of a resource to
// those that subscribed to it, a log message to those that set a level at or below its
// own. Any other is dropped, since it cannot be attributed.
func (p *process) notifySessions(m *mcp.Message) {
	var concerns func(*preferences) bool
	switch {
	case strings.HasSuffix(m.Method, "/list_changed"):
		concerns = func(*preferences) bool { return true }
	case m.Method == mcp.NotificationResourceUpdated:
		concerns = func(own *preferences) bool {
			f := wire.Filter{ResourceSubscriptions: own.uris}
			return f.Matches(m)
		}
	case m.Method == mcp.NotificationMessage:
		concerns = func(own *preferences) bool { return mcp.GetsLog(m, own.level) }
	default:
		p.log.Debug("a notification of a shared process is dropped because it cannot be attributed", "method", wire.Printable(m.Method))
		return
	}
	seen := map[any]bool{}
	for _, c := range p.all() {
		own := c.preferences()
		if !concerns(&own) {
			continue
		}
		// Sessions on behalf of one client pass changes on to the same subscriptions.
		if g, ok := c.session.(interface{ Group() any }); ok && wire.IsChange(m.Method) {
			if seen[g.Group()] {
				continue
			}
			seen[g.Group()] = true
		}
		c.session.Notify(m)
	}
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
		if level := l.session.preferences().level; level != "" && !mcp.GetsLog(m, level) {
			return
		}
	}
	l.Peer.Notify(m)
}
