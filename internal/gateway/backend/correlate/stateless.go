package correlate

import (
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// NotifyStateless passes a notification of the stateless era to the exchange it belongs to,
// and reports whether it could be attributed: by the progress token, by the subscription
// id, which is the id of the listen request (MCP 2026-07-28, Subscriptions), or because
// only one pending request can be meant.
func (a attribution) NotifyStateless(m *mcp.Message) bool {
	raw, subscribed, err := mcp.Lookup(m.Params, "_meta", mcp.MetaSubscription)
	if err != nil {
		return false
	}
	if !subscribed {
		if IsSessionWide(m.Method) || m.Method == mcp.NotificationSubscribed {
			return false // only a subscription has these: see [stdio.subscriptions.unmarked]
		}
		if m.Method == mcp.NotificationProgress {
			// Notify drops progress of a request that has its response already.
			return a.Notify(m)
		}
		f := a.onlyCall(m.Method)
		if f == nil {
			return false
		}
		f.Peer.Notify(m)
		return true
	}
	id, ok := mcp.AsID(raw)
	f := a.subscription(id)
	if !ok || f == nil {
		return false
	}
	params, err := mcp.Replace(m.Params, f.ClientID.Raw(), "_meta", mcp.MetaSubscription)
	if err != nil {
		return false
	}
	f.Peer.Notify(&mcp.Message{Method: m.Method, Params: params})
	return true
}

// EndSubscription ends the subscription whose listen request the server cancels: over stdio
// a server ends a subscription so (MCP 2026-07-28, Cancellation). It reports whether there
// was one. The client receives the result with which a subscription ends over HTTP
// (Subscriptions).
func (a attribution) EndSubscription(m *mcp.Message) bool {
	id, ok := mcp.CancelledID(m)
	if !ok {
		return false
	}
	t := a.table
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.pending.listening(id)
	if f == nil {
		return false
	}
	t.pending.complete(f, mcp.SubscriptionEnded(f.ID))
	return true
}

// subscription returns the pending listen request with the id, nil for none.
func (a attribution) subscription(id mcp.ID) *PendingRequest {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	return a.table.pending.listening(id)
}

// onlyCall is [pendingSet.onlyCall].
func (a attribution) onlyCall(method string) *PendingRequest {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	return a.table.pending.onlyCall(method)
}

// RestoreSubscription replaces the subscription id in the result of a listen request, which
// is the gateway's id, by the client's id.
func RestoreSubscription(result json.RawMessage, id mcp.ID) (json.RawMessage, error) {
	_, found, err := mcp.Lookup(result, "_meta", mcp.MetaSubscription)
	if err != nil || !found {
		return result, err
	}
	return mcp.Replace(result, id.Raw(), "_meta", mcp.MetaSubscription)
}
