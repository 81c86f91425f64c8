package correlate

import (
	"encoding/json"
	"time"

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
		if isSessionWide(m.Method) || m.Method == mcp.NotificationSubscribed {
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
	f := t.listening(id)
	if f != nil {
		f.read = true
	}
	return f
}

// listening is the listen request with the id. The caller holds mu.
func (t *RequestTable) listening(id mcp.ID) *PendingRequest {
	if f := t.named(id); f != nil && f.Method == mcp.MethodSubscriptionsListen {
		return f
	}
	return nil
}

// onlyCall is the one request in flight that a notification of that method can
// belong to which says of itself nothing; nil when there are several. A
// subscription's messages all say what they belong to. Log messages are for who
// asked for them: a server must not send any about another request (MCP
// 2026-07-28, Logging). So one that was cancelled and asked for none, and that
// some servers never answer, does not stand in the way; one that did ask does,
// since what is still logged about it must reach nobody else. A server that has
// logged unasked is not relied on: then every request may be meant.
func (t *RequestTable) onlyCall(method string) *PendingRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	log := method == mcp.NotificationMessage
	var only, asked *PendingRequest
	calls, askers := 0, 0
	for _, f := range t.byID {
		if f.Method == mcp.MethodSubscriptionsListen {
			continue
		}
		only, calls = f, calls+1
		if f.logs {
			asked, askers = f, askers+1
		}
	}
	now := time.Now()
	switch {
	case log && askers == 0:
		t.unasked = true
		return nil
	case log && !t.unasked && askers == 1 && !now.Before(t.logDoubt):
		return asked
	case calls != 1 || log && !only.logs || now.Before(t.doubt):
		return nil
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
