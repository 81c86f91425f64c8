package translate

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestDown_LogLevelOfEachRequest(t *testing.T) {
	t.Parallel()
	var levels []string
	o := &oracle{do: func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		level, _, err := mcp.LookupString(x.Request.Params, "_meta", mcp.MetaLogLevel)
		if err != nil {
			return nil, err
		}
		if levels = append(levels, level); len(levels) == 4 {
			return mcp.NewResult(x.Request.ID, json.RawMessage(backendtest.Done)), nil
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`)), nil
	}}
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	p, next := backendtest.NewPeer(), []string{"debug", "debug", "error"}
	p.Answer = func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
		if _, err := c.Do(ctx, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(2), mcp.MethodSetLevel, `{"level":"`+next[0]+`"}`), nil)); err != nil {
			t.Error(err)
		}
		next = next[1:]
		return mcp.NewResult(q.ID, json.RawMessage(`{"roots":[]}`)), nil
	}
	if got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodPromptsGet, `{"name":"x"}`), p))); got != "done" {
		t.Fatal(got)
	}
	if d := cmp.Diff([]string{"", "debug", "debug", "error"}, levels); d != "" {
		t.Error(d)
	}
}
