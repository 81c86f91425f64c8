package correlate

import (
	"context"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// attribution assigns the notifications and the requests of a server to pending requests.
// It is a part of every [RequestTable].
type attribution struct{ table *RequestTable }

// Notify passes the notification m to the exchange it belongs to and reports
// whether it was attributed; if not it belongs to the session.
func (a attribution) Notify(m *mcp.Message) bool {
	t := a.table
	f, progress := a.owner(m)
	if f == nil {
		// Progress of a request that has its response already: on a shared connection
		// the client's own token is no longer stored.
		return progress && t.Shared.Load()
	}
	if progress && t.Shared.Load() {
		params, err := mcp.Replace(m.Params, f.token, "progressToken")
		if err != nil {
			return true
		}
		m = &mcp.Message{Method: m.Method, Params: params}
	}
	f.Peer.Notify(m)
	return true
}

// owner returns the pending request of a notification, nil for none. progress reports
// whether m is attributed by its token.
func (a attribution) owner(m *mcp.Message) (f *PendingRequest, progress bool) {
	t := a.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Method == mcp.NotificationProgress {
		raw, _, _ := mcp.Lookup(m.Params, "progressToken")
		token, _ := mcp.AsID(raw)
		return t.pending.byToken(token, t.Shared.Load()), true
	}
	if IsSessionWide(m.Method) {
		return nil, false
	}
	return t.pending.only(), false
}

// IsSessionWide reports whether a notification is about the session and never about a
// request: changes of lists and of subscribed resources (MCP 2025-11-25, Tools, List
// Changed Notification; Resources, Subscriptions). It belongs to the session also while
// one request is pending: that request's client may have closed its stream.
func IsSessionWide(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == mcp.NotificationResourceUpdated
}

// SendServerRequest sends the server's request q to its client, within the sole pending
// request if there is exactly one. Otherwise it sends q to the session, which may be nil,
// and if that fails, within the newest pending request. On a shared connection it fails
// unless exactly one request is pending.
func (a attribution) SendServerRequest(ctx context.Context, q *mcp.Message, session exchange.Peer) (*mcp.Message, error) {
	t := a.table
	t.mu.Lock()
	only, newest := t.pending.only(), t.pending.newest(func(*PendingRequest) bool { return true })
	t.mu.Unlock()
	if only != nil {
		return only.Peer.Ask(ctx, q)
	}
	if t.Shared.Load() {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound,
			Message: "it is not known which client " + q.Method + " is for: the server's session is shared, and not exactly one request is pending"}
	}
	answer, err := wire.OrNoPeer(session).Ask(ctx, q)
	if err == nil || ctx.Err() != nil {
		return answer, err
	}
	if newest == nil {
		return nil, err
	}
	return newest.Peer.Ask(ctx, q)
}

// SendToNewestCall sends the server's request q within the newest pending request that
// may have several rounds (MCP 2026-07-28, Multi Round-Trip Requests). All pending
// requests are of one client of the stateless era, which receives q in any of them.
func (a attribution) SendToNewestCall(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	t := a.table
	t.mu.Lock()
	newest := t.pending.newest(func(f *PendingRequest) bool { return mcp.IsMultiRound(f.Method) && !f.orphan })
	t.mu.Unlock()
	if newest == nil {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no request is pending in which the client can be sent " + wire.Printable(q.Method)}
	}
	return newest.Peer.Ask(ctx, q)
}
