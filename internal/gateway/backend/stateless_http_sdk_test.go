package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The official SDK's server.
func TestModernHTTPWithTheSDK(t *testing.T) {
	t.Parallel()
	for _, answersJSON := range []bool{false, true} {
		t.Run(fmt.Sprint("answering JSON ", answersJSON), func(t *testing.T) {
			f := newFixture()
			m := modernAt(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.server },
				&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: answersJSON, PropagateRequestCancellation: true}))
			answer, err := m.Do(backendtest.TestContext(t), discoverExchange())
			if err != nil || !wire.ProvesStateless(answer) {
				t.Fatalf("%v, %v", answer, err)
			}
			if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.StringID("s"), "echo", `{"a":1}`), nil))); got != `{"a":1}` {
				t.Error(got)
			}
			for method, want := range map[string]int{"no/such": mcp.CodeMethodNotFound, mcp.MethodPing: mcp.CodeMethodNotFound, mcp.MethodInitialize: mcp.CodeMethodNotFound} {
				answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Request(mcp.IntID(3), method, `{}`), nil))
				if err != nil || answer.Error == nil || answer.Error.Code != want || answer.ID != mcp.IntID(3) {
					t.Errorf("%s: %v, %v", method, answer, err)
				}
			}
			if answersJSON {
				return
			}
			p := backendtest.NewPeer()
			got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Request(mcp.IntID(4), mcp.MethodToolsCall,
				`{"name":"progress","arguments":{},"_meta":{"progressToken":"t"}}`), p)))
			if got != "done" || len(p.Notes) != 3 {
				t.Errorf("%s, %d notifications", got, len(p.Notes))
			}
			ctx, cancel := context.WithCancel(backendtest.TestContext(t))
			defer cancel()
			waiting := beginModern(ctx, m, modernExchange(backendtest.Call(mcp.IntID(5), "wait", `{}`), nil))
			<-f.started
			cancel()
			if _, err := backendtest.Wait(t, waiting); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			select {
			case <-f.cancelled:
			case <-time.After(backendtest.Patience):
				t.Error("the tool was not cancelled")
			}
		})
	}
	t.Run("subscriptions", func(t *testing.T) {
		f := newFixture()
		m := modernAt(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.server }, &sdk.StreamableHTTPOptions{Stateless: true}))
		ctx, cancel := context.WithCancel(backendtest.TestContext(t))
		defer cancel()
		a, doneA := listen(ctx, t, m, mcp.StringID("same"))
		b, doneB := listen(ctx, t, m, mcp.StringID("same"))
		if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(1), "grow", `{}`), nil))); got != "grown" {
			t.Error(got)
		}
		for _, p := range []*backendtest.Peer{a, b} {
			mustBelong(t, p.Next(t, mcp.NotificationToolsChanged).Params, mcp.StringID("same"))
		}
		cancel()
		for _, done := range []<-chan backendtest.Outcome{doneA, doneB} {
			if _, err := backendtest.Wait(t, done); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	t.Run("with sessions it is of the other era", func(t *testing.T) {
		f := newFixture()
		m := modernAt(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.server }, nil))
		if answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(1), "echo", `{}`), nil)); !isOtherEra(err) {
			t.Errorf("%v, %v", answer, err)
		}
	})
	t.Run("HTTP+SSE is of the other era", func(t *testing.T) {
		f := newFixture()
		m := modernAt(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return f.server }, nil))
		if answer, err := m.Do(backendtest.TestContext(t), discoverExchange()); !isOtherEra(err) {
			t.Errorf("%v, %v", answer, err)
		}
	})
}
