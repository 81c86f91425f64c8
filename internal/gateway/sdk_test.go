package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
)

// These tests use the Go SDK on both sides of the gateway, in both eras. Package
// test/corners has what clients do during a session; here is its beginning and its end.

const patience = time.Minute

// newSDKServer makes a server with the tool echo, which returns its arguments.
func newSDKServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	return s
}

func newClient() *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, nil)
}

// front is a proxy mode, a client's protocol version, and the SDK's transport
// for them.
type front struct {
	name      string
	mode      string
	version   string
	transport func(url string, client *http.Client) sdk.Transport
}

func fronts() []front {
	streamable := func(url string, c *http.Client) sdk.Transport {
		return &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: c}
	}
	return []front{
		{"streamable", endpoint.Streamable, "2025-11-25", streamable},
		{"stateless", endpoint.Streamable, "2026-07-28", streamable},
		{"sse", endpoint.SSE, "2025-11-25", func(url string, c *http.Client) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: c}
		}},
	}
}

// rig is a server behind a gateway.
type rig struct {
	t         *testing.T
	server    *sdk.Server
	front     front
	stateless bool // the server
	gateway   *gateway.Gateway
	url       string
	// restart loses the server with all its sessions and starts another at the
	// same address.
	restart func()
}

func newRig(t *testing.T, f front, stateless bool) *rig {
	t.Helper()
	r := &rig{t: t, server: newSDKServer(), front: f, stateless: stateless}
	var mu sync.Mutex
	opts := &sdk.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: stateless}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return r.server }, opts)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, req)
	}))
	r.restart = func() {
		mu.Lock()
		handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newSDKServer() }, opts)
		mu.Unlock()
		for s := range r.server.Sessions() {
			_ = s.Close()
		}
	}
	g, err := gateway.New(gateway.Config{Backend: backend.NewStreamable(backend.StreamableConfig{URL: behind.URL}), Name: "fixture", Endpoint: endpoint.Config{Mode: f.mode}})
	if err != nil {
		t.Fatal(err)
	}
	r.gateway = g
	srv := httptest.NewServer(g)
	r.url = srv.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("close the gateway: %v", err)
		}
		srv.CloseClientConnections()
		srv.Close()
		for s := range r.server.Sessions() {
			_ = s.Close()
		}
		behind.CloseClientConnections()
		behind.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return r
}

func (r *rig) connect(client *sdk.Client) *sdk.ClientSession {
	r.t.Helper()
	transport := &http.Transport{}
	// The context is the stream's too, so it has no time limit of its own.
	session, err := client.Connect(r.t.Context(), r.front.transport(r.url, &http.Client{Transport: transport}), &sdk.ClientSessionOptions{ProtocolVersion: r.front.version})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = session.Close(); transport.CloseIdleConnections() })
	return session
}

// text calls a tool and returns the text of its result.
func text(t *testing.T, s *sdk.ClientSession, params *sdk.CallToolParams) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if params.Arguments == nil {
		params.Arguments = map[string]any{}
	}
	result, err := s.CallTool(ctx, params)
	if err != nil {
		t.Fatalf("call %s: %v", params.Name, err)
	}
	return result.Content[0].(*sdk.TextContent).Text
}

func eachCorner(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, f := range fronts() {
		t.Run(f.name+" to sessions", func(t *testing.T) { test(t, newRig(t, f, false)) })
		t.Run(f.name+" to stateless", func(t *testing.T) { test(t, newRig(t, f, true)) })
	}
}

func TestSDK_ServerLosesItsSessions(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		if r.stateless {
			return // it has no session to lose
		}
		client := newClient()
		s := r.connect(client)
		text(t, s, &sdk.CallToolParams{Name: "echo"})
		r.restart()
		// The first call finds out, at the latest; it never succeeds with nothing.
		ended := time.Now().Add(patience)
		for {
			result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{}})
			if err != nil {
				break
			}
			if got := result.Content[0].(*sdk.TextContent).Text; got != `{}` || time.Now().After(ended) {
				t.Fatalf("the lost session answers %q", got)
			}
			if r.front.version == "2026-07-28" {
				break // the gateway had found out before, and begun another
			}
		}
		if got := text(t, r.connect(client), &sdk.CallToolParams{Name: "echo"}); got != `{}` {
			t.Errorf("got %s", got)
		}
	})
}

func TestSDK_ClientCloses(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		if r.front.version == "2026-07-28" {
			return // it has no session
		}
		s := r.connect(newClient())
		if n := r.gateway.Sessions(); n != 1 {
			t.Fatalf("%d sessions", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); r.gateway.Sessions() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the session stays")
			}
		}
	})
}

func TestSDK_StatelessGateway(t *testing.T) {
	server := newSDKServer()
	behind := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	defer behind.Close()
	g, err := gateway.New(gateway.Config{Backend: backend.NewStreamable(backend.StreamableConfig{URL: behind.URL, Stateless: true}), Endpoint: endpoint.Config{Mode: endpoint.Streamable, Stateless: true}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	defer srv.Close()
	defer g.Close(context.Background())
	r := &rig{t: t, url: srv.URL, front: fronts()[0]}
	s := r.connect(newClient())
	defer s.Close()
	if got := text(t, s, &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"x": 1}}); got != `{"x":1}` {
		t.Errorf("got %s", got)
	}
}
