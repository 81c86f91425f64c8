package translate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// holdingPeer answers with what it holds meanwhile.
type holdingPeer struct {
	*backendtest.Peer
	room, held int
}

func (p *holdingPeer) Hold(bytes int) (release func(), err error) {
	if p.held+bytes > p.room {
		return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "no room"}
	}
	p.held += bytes
	return func() { p.held -= bytes }, nil
}

// What a server gives its client to keep is ours to keep, while a client is asked that
// cannot (MCP 2026-07-28, Multi Round-Trip Requests). It goes back with the answer, which
// is counted until then too.
func TestDown_WaitingStateIsReserved(t *testing.T) {
	t.Parallel()
	state := strings.Repeat("s", 1000)
	var p *holdingPeer
	var asking context.Context
	o := &oracle{do: func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if mcp.Mentions(x.Request.Params, "requestState") {
			if p.held < len(state) || asking.Err() != nil {
				t.Errorf("when it goes back, %d bytes are held, and the question is over: %v", p.held, asking.Err())
			}
			return mcp.NewResult(x.Request.ID, json.RawMessage(backendtest.Done)), nil
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"input_required","requestState":"`+state+`","inputRequests":{"a":{"method":"roots/list"}}}`)), nil
	}}
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	for room, want := range map[int]string{2000: "done", 999: "no room"} {
		p = &holdingPeer{Peer: backendtest.NewPeer(), room: room}
		asked := 0
		p.Answer = func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
			asked, asking = p.held, ctx
			return mcp.NewResult(q.ID, json.RawMessage(`{"roots":[]}`)), nil
		}
		got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(3), mcp.MethodPromptsGet, `{"name":"x"}`), p)))
		if asking != nil && asking.Err() == nil {
			t.Error("the question is never over")
		}
		if !strings.Contains(got, want) || want == "done" && asked < len(state) || p.held != 0 {
			t.Errorf("with room for %d: %s; %d were held while the client was asked, %d afterwards", room, got, asked, p.held)
		}
	}
}
