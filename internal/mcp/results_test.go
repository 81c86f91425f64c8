package mcp

import (
	"encoding/json"
	"testing"
)

func TestResults(t *testing.T) {
	asked, err := InputRequired(map[string]InputRequest{"1": {Method: MethodRootsList}}, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := InputRequired(map[string]InputRequest{"1": {Method: MethodElicitation, Params: json.RawMessage(`{"message":"m"}`)}}, "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, got, want string }{
		{"a question without params has empty ones", string(asked), `{"resultType":"input_required","inputRequests":{"1":{"method":"roots/list","params":{}}}}`},
		{"a question with a state", string(again), `{"resultType":"input_required","inputRequests":{"1":{"method":"elicitation/create","params":{"message":"m"}}},"requestState":"s"}`},
		{"the end of a subscription", string(SubscriptionEnded(StringID("a")).Result), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"a"}}`},
		{"a cancellation", string(Cancelled(IntID(7), "why").Params), `{"requestId":7,"reason":"why"}`},
	} {
		if row.got != row.want {
			t.Errorf("%s: %s, want %s", row.name, row.got, row.want)
		}
	}
}

func TestCancelledID(t *testing.T) {
	for params, want := range map[string]ID{
		`{"requestId":7}`:               IntID(7),
		`{"requestId":"a"}`:             StringID("a"),
		`{"requestId":null}`:            {},
		`{"requestId":1,"requestId":2}`: {},
		`{"requestid":1}`:               {},
		`{}`:                            {},
		``:                              {},
	} {
		if id, ok := CancelledID(&Message{Params: json.RawMessage(params)}); id != want || ok == want.IsZero() {
			t.Errorf("%s: %q, %v", params, id, ok)
		}
	}
}

func TestServerMethods_NeedCapability(t *testing.T) {
	for _, method := range ServerMethods() {
		if NeededCapability(method) == "" {
			t.Errorf("%s needs none", method)
		}
	}
	if got := NeededCapability(MethodPing); got != "" {
		t.Errorf("ping needs %s", got)
	}
}
