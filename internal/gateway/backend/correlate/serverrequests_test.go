package correlate

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A server's request waits for as long as a person needs. The buffer in which it arrived,
// which may hold megabytes of white space, is released before.
func TestServerRequests_ReleaseMessageBuffer(t *testing.T) {
	asks := NewServerRequests(func(context.Context, *mcp.Message) {})
	defer asks.Close()
	asked := make(chan struct{})
	line := func() weak.Pointer[byte] {
		b := append(bytes.Repeat([]byte(" "), 1<<20), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`...)
		m, err := mcp.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := asks.Start(m, func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
			close(asked)
			<-ctx.Done()
			return q, ctx.Err()
		}); err != nil {
			t.Fatal(err)
		}
		return weak.Make(&b[0])
	}()
	<-asked
	backendtest.Eventually(t, "the rest of the line to be collected", func() bool { runtime.GC(); return line.Value() == nil })
}

// The peer counts the response as memory until the context of the request ends, which is
// when the response was sent to the server ([exchange.Peer]).
func TestServerRequests_EndAfterResponseIsSent(t *testing.T) {
	sending, read := make(chan struct{}), make(chan struct{})
	asks := NewServerRequests(func(context.Context, *mcp.Message) {
		close(sending)
		<-read
	})
	defer asks.Close()
	asked := make(chan context.Context, 1)
	if err := asks.Start(backendtest.Request(mcp.IntID(1), mcp.MethodRootsList, `{}`), func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
		asked <- ctx
		return mcp.NewResult(q.ID, []byte(`{}`)), nil
	}); err != nil {
		t.Fatal(err)
	}
	ctx := <-asked
	<-sending
	if ctx.Err() != nil {
		t.Error("the context ended before the server has read the response")
	}
	close(read)
	select {
	case <-ctx.Done():
	case <-backendtest.TestContext(t).Done():
		t.Error("the context did not end")
	}
}
