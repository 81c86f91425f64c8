package correlate

import (
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// NotifyStateless passes a notification of the stateless era to the exchange it
// belongs to, and reports whether that could be told: by the progress token, by
// the subscription id, which is the listen request's (MCP 2026-07-28,
// Subscriptions), or because there is only one that can be meant.
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
			// Progress of a request that is answered already is nobody's.
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

// EndSubscription ends the subscription whose listen request the server cancels,
// which is how it ends one on this transport (MCP 2026-07-28, Cancellation), and
// reports whether there is one. The client gets the result that the same end has
// on a transport with a stream of its own (Subscriptions).
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

// listening is the listen request with the id. The caller holds mu.
func (t *RequestTable) listening(id mcp.ID) *PendingRequest {
	if f := t.named(id); f != nil && f.Method == mcp.MethodSubscriptionsListen {
		return f
	}
	return nil
}

// onlyCall is the pending request to which a notification of that method belongs that
// carries no association; nil when there is none or several. Messages of subscriptions
// carry their id. Log messages are sent only for requests that name a log level (MCP
// 2026-07-28, Logging), so the others are not counted for these.
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

// RestoreSubscription puts the client's id into the result of a listen request,
// where the server put the one it knows.
func RestoreSubscription(result json.RawMessage, id mcp.ID) (json.RawMessage, error) {
	_, found, err := mcp.Lookup(result, "_meta", mcp.MetaSubscription)
	if err != nil || !found {
		return result, err
	}
	return mcp.Replace(result, id.Raw(), "_meta", mcp.MetaSubscription)
}
