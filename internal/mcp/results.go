package mcp

import "encoding/json"

// The values of resultType, a member of every result of the stateless era (MCP
// 2026-07-28, basic). A result without it is complete.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)

// IsMultiRound reports whether a request of the method may be answered with
// [InputRequired] (MCP 2026-07-28, Multi Round-Trip Requests).
func IsMultiRound(method string) bool {
	switch method {
	case MethodToolsCall, MethodPromptsGet, MethodResourcesRead:
		return true
	}
	return false
}

// InputRequest is a request of the server in a result of the type input_required.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// InputRequired returns a result with requests of the server (InputRequiredResult). The
// client sends state back with its responses; "" leaves it out.
func InputRequired(requests map[string]InputRequest, state string) (json.RawMessage, error) {
	for key, r := range requests {
		if len(r.Params) == 0 {
			r.Params = json.RawMessage(`{}`) // the SDKs require it
			requests[key] = r
		}
	}
	return json.Marshal(struct {
		ResultType    string                  `json:"resultType"`
		InputRequests map[string]InputRequest `json:"inputRequests"`
		RequestState  string                  `json:"requestState,omitempty"`
	}{ResultInputRequired, requests, state})
}

// SubscriptionEnded is the response to the subscriptions/listen of that id when the
// subscription ends without an error (MCP 2026-07-28, Subscriptions).
func SubscriptionEnded(id ID) *Message {
	return NewResult(id, json.RawMessage(`{"resultType":"`+ResultComplete+`","_meta":{"`+MetaSubscription+`":`+id.String()+`}}`))
}
