package backend

import (
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestSessionClientWithTheSDK(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.server.AddTool(&sdk.Tool{Name: "mirrored", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	f.server.AddTool(&sdk.Tool{Name: "curious", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if r.Params.RequestState == "" {
				return &sdk.CallToolResult{
					InputRequests: sdk.InputRequestMap{"who": &sdk.ElicitParams{Message: "who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}},
					RequestState:  "asked",
				}, nil
			}
			who, ok := r.Params.InputResponses["who"].(*sdk.ElicitResult)
			if !ok {
				return nil, fmt.Errorf("no answer but %v", r.Params.InputResponses)
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: who.Action + " " + r.Params.RequestState}}}, nil
		})
	f.server.AddResource(&sdk.Resource{Name: "a", URI: "file:///a"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{}, nil
	})
	b := closeAfter(t, streamableBackend(serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.server }, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})).URL))
	p := backendtest.NewPeer()
	conn, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conn.Listen()
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "echo", `{"text":"hello"}`), p))); !strings.Contains(got, "hello") {
		t.Error(got)
	}
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(2), "mirrored", `{"region":" Ä","n":3}`), p))); got != `{"region":" Ä","n":3}` {
		t.Error(got)
	}
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(3), "grow", `{}`), nil))); got != "grown" {
		t.Error(got)
	}
	note := p.Next(t, mcp.NotificationToolsChanged)
	if strings.Contains(string(note.Params), mcp.MetaSubscription) {
		t.Errorf("%s", note.Params)
	}
	asked := backendtest.Answering(map[string]string{mcp.MethodElicitation: `{"action":"decline"}`})
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(4), "curious", `{}`), asked))); got != "decline asked" {
		t.Error(got)
	}
	if _, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(5), mcp.MethodSetLevel, `{"level":"info"}`), nil)); err != nil {
		t.Error(err)
	}
	heard := backendtest.NewPeer()
	if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(6), "log", `{}`), heard))); got != "logged" {
		t.Error(got)
	}
	heard.Next(t, mcp.NotificationMessage)
	if err := requestSubscription(t, conn, mcp.MethodResourcesSubscribe, "file:///a"); err != nil {
		t.Error(err)
	}
	if err := f.server.ResourceUpdated(backendtest.TestContext(t), &sdk.ResourceUpdatedNotificationParams{URI: "file:///a"}); err != nil {
		t.Error(err)
	}
	p.Next(t, mcp.NotificationResourceUpdated)
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(7), "wait", `{}`), nil))
		ended <- err
	}()
	<-f.started
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func requestSubscription(t *testing.T, c exchange.Conn, method, uri string) error {
	t.Helper()
	params, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), method, string(params)), nil))
	if err != nil {
		return err
	}
	if m.Error != nil {
		return m.Error
	}
	return nil
}
