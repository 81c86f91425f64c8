package backend

import (
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// notifyModern passes a notification of the stateless era to the exchange it
// belongs to, and reports whether that could be told: by the progress token, by
// the subscription id, which is the listen request's (MCP 2026-07-28,
// Subscriptions), or because there is only one that can be meant.
func (t *inflight) notifyModern(m *mcp.Message) bool {
	raw, subscribed, err := mcp.Lookup(m.Params, "_meta", mcp.MetaSubscription)
	if err != nil {
		return false
	}
	if !subscribed {
		if isSessionWide(m.Method) || m.Method == mcp.NotificationSubscribed {
			return false // only a subscription has these
		}
		if m.Method == mcp.NotificationProgress {
			// Progress of a request that is answered already is nobody's.
			return t.notify(m)
		}
		f := t.onlyCall()
		if f == nil {
			return false
		}
		f.peer.Notify(m)
		return true
	}
	id, ok := mcp.AsID(raw)
	f := t.subscription(id)
	if !ok || f == nil {
		return false
	}
	params, err := mcp.Replace(m.Params, f.exchange.Request.ID.Raw(), "_meta", mcp.MetaSubscription)
	if err != nil {
		return false
	}
	f.peer.Notify(&mcp.Message{Method: m.Method, Params: params})
	return true
}

// endSubscription ends the subscription whose listen request the server cancels,
// which is how it ends one on this transport (MCP 2026-07-28, Cancellation), and
// reports whether there is one. The client gets the result that the same end has
// on a transport with a stream of its own (Subscriptions).
func (t *inflight) endSubscription(m *mcp.Message) bool {
	raw, _, err := mcp.Lookup(m.Params, "requestId")
	id, ok := mcp.AsID(raw)
	if err != nil || !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.listening(id)
	return f != nil && t.complete(f, mcp.NewResult(id, json.RawMessage(
		`{"resultType":"`+mcp.ResultComplete+`","_meta":{"`+mcp.MetaSubscription+`":`+f.id.String()+`}}`)))
}

func (t *inflight) subscription(id mcp.ID) *flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.listening(id)
}

// listening is the listen request with the id. The caller holds mu.
func (t *inflight) listening(id mcp.ID) *flight {
	if f := t.byID[id]; f != nil && f.exchange.Request.Method == mcp.MethodSubscriptionsListen {
		return f
	}
	return nil
}

// onlyCall is the one request in flight beside subscriptions, whose messages all
// say what they belong to.
func (t *inflight) onlyCall() *flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	var only *flight
	for _, f := range t.byID {
		if f.exchange.Request.Method == mcp.MethodSubscriptionsListen {
			continue
		}
		if only != nil {
			return nil
		}
		only = f
	}
	return only
}

// restoreSubscription puts the client's id into the result of a listen request,
// where the server put the one it knows.
func restoreSubscription(result json.RawMessage, id mcp.ID) (json.RawMessage, error) {
	_, found, err := mcp.Lookup(result, "_meta", mcp.MetaSubscription)
	if err != nil || !found {
		return result, err
	}
	return mcp.Replace(result, id.Raw(), "_meta", mcp.MetaSubscription)
}
