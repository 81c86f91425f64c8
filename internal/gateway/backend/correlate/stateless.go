package correlate

import (
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// NotifyStateless passes a notification of the stateless era to the exchange it belongs to,
// and reports whether it could be attributed: by the progress token, by the subscription
// id, which is the id of the listen request (MCP 2026-07-28, Subscriptions), or because
// only one pending request can be meant.
func (t *RequestTable) NotifyStateless(m *mcp.Message) bool {
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
			return t.Notify(m)
		}
		f := t.onlyCall(m.Method)
		if f == nil {
			return false
		}
		f.Peer.Notify(m)
		return true
	}
	id, ok := mcp.AsID(raw)
	f := t.subscription(id)
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
func (t *RequestTable) EndSubscription(m *mcp.Message) bool {
	id, ok := mcp.CancelledID(m)
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.listening(id)
	if f == nil {
		return false
	}
	t.complete(f, mcp.SubscriptionEnded(f.ID))
	return true
}

func (t *RequestTable) subscription(id mcp.ID) *PendingRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.listening(id)
}

// listening returns the listen request with the id, nil for none. The caller holds mu.
func (t *RequestTable) listening(id mcp.ID) *PendingRequest {
	if f := t.named(id); f != nil && f.Method == mcp.MethodSubscriptionsListen {
		return f
	}
	return nil
}

// onlyCall returns the pending request to which a notification of that method belongs if it
// carries no association; nil if no request or several can be meant. Listen requests are
// not counted: their messages carry a subscription id. For log messages, only requests that
// name a log level are counted, since the server sends none for the others (MCP 2026-07-28,
// Logging).
func (t *RequestTable) onlyCall(method string) *PendingRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	var only *PendingRequest
	for _, f := range t.byID {
		if f.Method == mcp.MethodSubscriptionsListen || method == mcp.NotificationMessage && !f.logs {
			continue
		}
		if only != nil {
			return nil
		}
		only = f
	}
	return only
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
