package mcp

import "encoding/json"

// Cancelled is the notification that cancels the request with that id (MCP,
// Cancellation). reason is put into JSON as it is: it must not need escapes.
func Cancelled(id ID, reason string) *Message {
	return &Message{
		Method: NotificationCancelled,
		Params: json.RawMessage(`{"requestId":` + id.String() + `,"reason":"` + reason + `"}`),
	}
}

// CancelledID returns the id of the request that m, a notifications/cancelled, cancels.
// ok is false if it has none that is valid.
func CancelledID(m *Message) (id ID, ok bool) {
	raw, found, err := Lookup(m.Params, "requestId")
	if err != nil || !found {
		return ID{}, false
	}
	return AsID(raw)
}
