package gateway

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// A client may continue with a server's own requestState after the gateway restarted, if
// the key is the same.
func TestServerRequestState_ValidAfterRestart(t *testing.T) {
	key := seal.NewKey()
	start := func(key []byte) *wire {
		b := newFakeBackend()
		b.do = askFirst
		_, srv := serve(t, b, func(c *Config) { c.Key = key }, nil)
		return newWire(t, srv)
	}
	headers := statelessHeaders("tools/call", "add")
	state := start(key).post(req("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+statelessMeta(`"roots":{}`)+`}`), headers...).inputRequired(t).RequestState
	answer := again("2", "add", state, `{"q":{"roots":[]}}`)
	if a := start(key).post(answer, headers...); a.status != 200 {
		t.Errorf("the next gateway: %d %s", a.status, a.body)
	}
	if a := start(seal.NewKey()).post(answer, headers...); a.status != 400 || a.code(t) != mcp.CodeInvalidParams {
		t.Errorf("a gateway with another key: %d %s", a.status, a.body)
	}
}

// askFirst is a server with a requestState of its own. It accepts any answer.
func askFirst(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
	_, found, err := mcp.LookupString(x.Request.Params, "requestState")
	switch {
	case err != nil:
		return nil, err
	case found:
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"complete"}`)), nil
	}
	return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}},"requestState":"mine"}`)), nil
}
