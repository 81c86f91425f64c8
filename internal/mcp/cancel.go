package mcp

import "encoding/json"

// Cancelled is the notification that nobody waits any more for the answer to the
// request of that id (MCP, Cancellation). reason is plain text of ours.
func Cancelled(id ID, reason string) *Message {
	return &Message{
		Method: NotificationCancelled,
		Params: json.RawMessage(`{"requestId":` + id.String() + `,"reason":"` + reason + `"}`),
	}
}

// CancelledID is the id of the request that m, a notifications/cancelled, names, if it
// names one.
func CancelledID(m *Message) (id ID, ok bool) {
	raw, found, err := Lookup(m.Params, "requestId")
	if err != nil || !found {
		return ID{}, false
	}
	return AsID(raw)
}
