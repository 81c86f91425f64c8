package translate

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// fakeConn is a session that the test ends.
type fakeConn struct {
	exchange.ConnDefaults
	done, closed chan struct{}
}

func (c *fakeConn) InitializeResult() json.RawMessage { return json.RawMessage(`{"capabilities":{}}`) }

func (c *fakeConn) Do(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
}

func (c *fakeConn) Notify(context.Context, *mcp.Message) error { return nil }
func (c *fakeConn) Done() <-chan struct{}                      { return c.done }

func (c *fakeConn) Close() error {
	close(c.closed)
	return nil
}

// An idle session that the server has ended is closed: it occupies a connection or process.
func TestUp_ClosesIdleSessionsThatEnded(t *testing.T) {
	t.Parallel()
	opened := make(chan *fakeConn, 10)
	up := NewUp(func(context.Context, *exchange.Client, exchange.Peer) (exchange.Conn, error) {
		c := &fakeConn{done: make(chan struct{}), closed: make(chan struct{})}
		opened <- c
		return c, nil
	}, backendtest.TestLog())
	t.Cleanup(up.Close)
	call := func() {
		t.Helper()
		client := &exchange.Client{Version: mcp.LatestStateless, Capabilities: json.RawMessage(`{"elicitation":{}}`)}
		x := &exchange.Exchange{Client: client, Request: backendtest.Call(mcp.IntID(1), "any", `{}`)}
		if _, err := up.Do(backendtest.TestContext(t), x); err != nil {
			t.Fatal(err)
		}
	}
	call()
	first := <-opened
	close(first.done)
	call()
	if second := <-opened; second == first {
		t.Error("an ended session is used again")
	}
	select {
	case <-first.closed:
	case <-backendtest.TestContext(t).Done():
		t.Error("the ended session is not closed")
	}
}
