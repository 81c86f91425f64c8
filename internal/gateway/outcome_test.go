package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A result that is no object is no success: MCP has none such.
func TestOutcome_ResultIsAnObject(t *testing.T) {
	for _, result := range []string{`null`, `"done"`, `[]`, `1`, `true`} {
		b := newFakeBackend()
		b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
			return mcp.NewResult(x.Request.ID, json.RawMessage(result)), nil
		}
		g, err := New(Config{Backend: b, Endpoint: endpoint.Config{Mode: endpoint.Streamable}})
		if err != nil {
			t.Fatal(err)
		}
		x := &exchange.Exchange{Client: &exchange.Client{Version: mcp.LatestStateless}, Request: &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodToolsCall}}
		x.Open = func(ctx context.Context, _ *exchange.Exchange) (*mcp.Message, error) { return b.Do(ctx, x) }
		if m := g.core.Outcome(t.Context(), x); m.Error == nil || !strings.Contains(m.Error.Message, "not an object") {
			t.Errorf("%s: %s", result, m.Encode())
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
