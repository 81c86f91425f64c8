package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
)

// These tests use the Go SDK on both sides: its client in each era, the gateway
// with each front, our backend for streamable HTTP, and its server in each era.
// So they go through all four corners: what a user relies on is the same in each.

const patience = time.Minute

// sdkServer is a server with tools that use every way of the protocol.
type sdkServer struct {
	server    *sdk.Server
	entered   chan struct{} // a "wait" call is there
	cancelled chan struct{} // and was cancelled
	rooted    chan struct{} // the client said that its roots have changed
}

// The tools that ask do so as a server of the era does.
func newSDKServer(modern bool) *sdkServer {
	s := &sdkServer{entered: make(chan struct{}, 10), cancelled: make(chan struct{}, 10), rooted: make(chan struct{}, 10)}
	s.server = sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, &sdk.ServerOptions{
		RootsListChangedHandler: func(context.Context, *sdk.RootsListChangedRequest) { s.rooted <- struct{}{} },
	})
	add := func(name string, run func(context.Context, *sdk.CallToolRequest) (string, error)) {
		s.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				text, err := run(ctx, r)
				if err != nil {
					return nil, err
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			})
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (string, error) {
		return string(r.Params.Arguments), nil
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3}); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	add("log", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		return "logged", r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Data: "careful"})
	})
	add("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (string, error) {
		s.entered <- struct{}{}
		<-ctx.Done()
		s.cancelled <- struct{}{}
		return "", ctx.Err()
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (string, error) {
		add("grown", func(context.Context, *sdk.CallToolRequest) (string, error) { return "yes", nil })
		return "growing", nil
	})
	if modern {
		s.askByResults()
		return s
	}
	add("sample", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		a, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "hello?"}}}})
		if err != nil {
			return "", err
		}
		return a.Content.(*sdk.TextContent).Text, nil
	})
	add("elicit", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		a, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Action, " ", a.Content["name"]), nil
	})
	add("roots", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		a, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return a.Roots[0].URI, nil
	})
	return s
}

// askByResults adds the tools that ask by multi-round-trip results.
func (s *sdkServer) askByResults() {
	ask := func(name string, question sdk.InputRequest, answer func(sdk.InputResponse) string) {
		s.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				a := r.Params.InputResponses["q"]
				if a == nil {
					return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": question}, RequestState: "state of " + name}, nil
				}
				if r.Params.RequestState != "state of "+name {
					return nil, fmt.Errorf("the state is %q", r.Params.RequestState)
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer(a)}}}, nil
			})
	}
	ask("sample", &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "hello?"}}}},
		func(a sdk.InputResponse) string {
			if r, ok := a.(*sdk.CreateMessageResult); ok {
				return r.Content.(*sdk.TextContent).Text
			}
			return a.(*sdk.CreateMessageWithToolsResult).Content[0].(*sdk.TextContent).Text
		})
	ask("elicit", &sdk.ElicitParams{Message: "who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
		func(a sdk.InputResponse) string {
			r := a.(*sdk.ElicitResult)
			return fmt.Sprint(r.Action, " ", r.Content["name"])
		})
	ask("roots", &sdk.ListRootsParams{}, func(a sdk.InputResponse) string { return a.(*sdk.ListRootsResult).Roots[0].URI })
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
		{"modern", endpoint.Streamable, "2026-07-28", streamable},
		{"sse", endpoint.SSE, "2025-11-25", func(url string, c *http.Client) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: c}
		}},
	}
}

// rig is a server behind a gateway.
type rig struct {
	t       *testing.T
	fixture *sdkServer
	front   front
	modern  bool // the server
	gateway *gateway.Gateway
	url     string
	// restart loses the server with all its sessions and starts another at the
	// same address.
	restart func()
}

func newRig(t *testing.T, f front, modern bool) *rig {
	t.Helper()
	r := &rig{t: t, fixture: newSDKServer(modern), front: f, modern: modern}
	var mu sync.Mutex
	opts := &sdk.StreamableHTTPOptions{Stateless: modern, PropagateRequestCancellation: modern}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return r.fixture.server }, opts)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, req)
	}))
	r.restart = func() {
		mu.Lock()
		handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newSDKServer(modern).server }, opts)
		mu.Unlock()
		for s := range r.fixture.server.Sessions() {
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
		for s := range r.fixture.server.Sessions() {
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

func newClient(change func(*sdk.ClientOptions)) *sdk.Client {
	opts := &sdk.ClientOptions{}
	if change != nil {
		change(opts)
	}
	return sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, opts)
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

func take[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func eachCorner(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, f := range fronts() {
		t.Run(f.name+" to sessions", func(t *testing.T) { test(t, newRig(t, f, false)) })
		t.Run(f.name+" to stateless", func(t *testing.T) { test(t, newRig(t, f, true)) })
	}
}

func TestSDKToolsAreListedAndCalled(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		s := r.connect(newClient(nil))
		if got := s.InitializeResult(); got.ServerInfo.Name != "fixture" || got.ProtocolVersion != r.front.version {
			t.Errorf("initialized with %+v", got)
		}
		var names []string
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		if d := cmp.Diff([]string{"echo", "elicit", "grow", "log", "progress", "roots", "sample", "wait"}, names); d != "" {
			t.Error(d)
		}
		if got := text(t, s, &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"a": "ä\n"}}); got != `{"a":"ä\n"}` {
			t.Errorf("got %s", got)
		}
		_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "no such tool"})
		var rpc *jsonrpc.Error
		if !errors.As(err, &rpc) || !strings.Contains(rpc.Message, "no such tool") {
			t.Errorf("the server's own error is lost: %v", err)
		}
	})
}

func TestSDKProgressAndLogMessagesArriveInOrder(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		progress, logs := make(chan float64, 10), make(chan string, 10)
		s := r.connect(newClient(func(o *sdk.ClientOptions) {
			o.ProgressNotificationHandler = func(_ context.Context, p *sdk.ProgressNotificationClientRequest) {
				if p.Params.ProgressToken == "my token" {
					progress <- p.Params.Progress
				}
			}
			o.LoggingMessageHandler = func(_ context.Context, l *sdk.LoggingMessageRequest) { logs <- fmt.Sprint(l.Params.Data) }
		}))
		log := &sdk.CallToolParams{Name: "log"}
		if r.front.version == "2026-07-28" {
			log.Meta = sdk.Meta{"io.modelcontextprotocol/logLevel": "info"} // each request says it
		} else if err := s.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Fatal(err)
		}
		params := &sdk.CallToolParams{Name: "progress"}
		params.SetProgressToken("my token")
		if got := text(t, s, params); got != "done" {
			t.Errorf("got %s", got)
		}
		for want := 1.0; want <= 3; want++ {
			if got := take(t, "progress", progress); got != want {
				t.Errorf("progress %v, want %v", got, want)
			}
		}
		if got := text(t, s, log); got != "logged" {
			t.Errorf("got %s", got)
		}
		if got := take(t, "the log message", logs); got != "careful" {
			t.Errorf("got %s", got)
		}
	})
}

func TestSDKServersAskTheirClient(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		client := newClient(func(o *sdk.ClientOptions) {
			o.CreateMessageHandler = func(_ context.Context, q *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
				return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "re: " + q.Params.Messages[0].Content.(*sdk.TextContent).Text}}, nil
			}
			o.ElicitationHandler = func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
			}
		})
		client.AddRoots(&sdk.Root{URI: "file:///home/ada"})
		s := r.connect(client)
		for tool, want := range map[string]string{"sample": "re: hello?", "elicit": "accept Ada", "roots": "file:///home/ada"} {
			if got := text(t, s, &sdk.CallToolParams{Name: tool}); got != want {
				t.Errorf("%s: got %q", tool, got)
			}
		}
		if r.modern || r.front.version == "2026-07-28" {
			return // it has no such notification
		}
		client.AddRoots(&sdk.Root{URI: "file:///tmp"})
		take(t, "the change of roots", r.fixture.rooted)
	})
}

func TestSDKClientsHearThatToolsHaveChanged(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		changed := make(chan struct{}, 10)
		s := r.connect(newClient(func(o *sdk.ClientOptions) {
			o.ToolListChangedHandler = func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }
		}))
		// What a server says before it has accepted the stream to be heard on is lost,
		// and a client that listens is not kept waiting for that for long.
		heard := false
		for end := time.Now().Add(patience); !heard; {
			text(t, s, &sdk.CallToolParams{Name: "grow"})
			select {
			case <-changed:
				heard = true
			case <-time.After(time.Second):
				if time.Now().After(end) {
					t.Fatal("the change was not heard of")
				}
			}
		}
		if got := text(t, s, &sdk.CallToolParams{Name: "grown"}); got != "yes" {
			t.Errorf("got %s", got)
		}
	})
}

func TestSDKCancellationReachesTheServer(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		s := r.connect(newClient(nil))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "wait"})
			failed <- err
		}()
		take(t, "the call", r.fixture.entered)
		cancel()
		take(t, "the cancellation", r.fixture.cancelled)
		if err := take(t, "the error", failed); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got := text(t, s, &sdk.CallToolParams{Name: "echo"}); got != `{}` {
			t.Errorf("the session does not go on: %s", got)
		}
	})
}

func TestSDKClientsComeBackAfterTheServerLostItsSessions(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		if r.modern {
			return // it has no session to lose
		}
		client := newClient(nil)
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

func TestSDKSessionsEndWhenTheClientCloses(t *testing.T) {
	eachCorner(t, func(t *testing.T, r *rig) {
		if r.front.version == "2026-07-28" {
			return // it has no session
		}
		s := r.connect(newClient(nil))
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

func TestSDKStatelessClientsWork(t *testing.T) {
	fixture := newSDKServer(false)
	behind := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return fixture.server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	defer behind.Close()
	g, err := gateway.New(gateway.Config{Backend: backend.NewStreamable(backend.StreamableConfig{URL: behind.URL, Stateless: true}), Endpoint: endpoint.Config{Mode: endpoint.Streamable, Stateless: true}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	defer srv.Close()
	defer g.Close(context.Background())
	r := &rig{t: t, url: srv.URL, front: fronts()[0]}
	s := r.connect(newClient(nil))
	defer s.Close()
	if got := text(t, s, &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"x": 1}}); got != `{"x":1}` {
		t.Errorf("got %s", got)
	}
}
