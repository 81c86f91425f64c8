package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// fixture is a server made with the official SDK.
type fixture struct {
	server    *sdk.Server
	cancelled chan string // receives the name of a tool whose call was cancelled
	started   chan string // receives the name of a tool that waits
}

func newFixture() *fixture {
	f := &fixture{cancelled: make(chan string, 100), started: make(chan string, 100)}
	f.server = sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	add := func(name string, h func(context.Context, *sdk.CallToolRequest) (string, error)) {
		f.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				s, err := h(ctx, req)
				if err != nil {
					s = "tool error: " + err.Error()
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}, IsError: err != nil}, nil
			})
	}
	add("echo", func(_ context.Context, req *sdk.CallToolRequest) (string, error) {
		return string(req.Params.Arguments), nil
	})
	add("client", func(_ context.Context, req *sdk.CallToolRequest) (string, error) {
		p := req.Session.InitializeParams()
		return p.ClientInfo.Name + " " + p.ProtocolVersion, nil
	})
	add("progress", func(ctx context.Context, req *sdk.CallToolRequest) (string, error) {
		for i := range 3 {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1)})
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	add("log", func(ctx context.Context, req *sdk.CallToolRequest) (string, error) {
		return "logged", req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "error", Data: "careful"})
	})
	add("sample", func(ctx context.Context, req *sdk.CallToolRequest) (string, error) {
		r, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5})
		if err != nil {
			return "", err
		}
		return "model said " + r.Content.(*sdk.TextContent).Text, nil
	})
	add("elicit", func(ctx context.Context, req *sdk.CallToolRequest) (string, error) {
		r, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return "", err
		}
		// Which is for those who have said that they want log messages.
		return "user chose " + r.Action, req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "answered"})
	})
	add("roots", func(ctx context.Context, req *sdk.CallToolRequest) (string, error) {
		r, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return "root " + r.Roots[0].URI, nil
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (string, error) {
		f.server.AddTool(&sdk.Tool{Name: "grown", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
		return "grown", nil
	})
	add("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (string, error) {
		f.started <- "wait"
		<-ctx.Done()
		f.cancelled <- "wait"
		return "", ctx.Err()
	})
	add("polled", func(_ context.Context, req *sdk.CallToolRequest) (string, error) {
		if req.Extra.CloseSSEStream == nil {
			return "", errors.New("this transport cannot poll")
		}
		req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 50 * time.Millisecond})
		return "polled", nil
	})
	return f
}

// serve runs h on loopback until the test ends; connections that streams hold
// open are cut then.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// transports are the ways to reach the fixture.
var transports = []struct {
	name string
	// asks: the server can put questions to its client.
	// streams: what it sends during a request comes with it.
	asks, streams bool
	handler       func(*sdk.Server) http.Handler
	backend       func(url string) exchange.Backend
}{
	{"streamable", true, true, streamableHandler(&sdk.StreamableHTTPOptions{}), streamableBackend},
	{"streamable with event store", true, true, streamableHandler(&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}), streamableBackend},
	{"streamable answering JSON", false, false, streamableHandler(&sdk.StreamableHTTPOptions{JSONResponse: true}), streamableBackend},
	{"streamable stateless", false, true, streamableHandler(&sdk.StreamableHTTPOptions{Stateless: true}), streamableBackend},
	{"sse", true, true, func(s *sdk.Server) http.Handler {
		return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil)
	}, sseBackend},
}

func streamableHandler(o *sdk.StreamableHTTPOptions) func(*sdk.Server) http.Handler {
	return func(s *sdk.Server) http.Handler {
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
	}
}

func streamableBackend(url string) exchange.Backend {
	return NewStreamable(httpconn.StreamableConfig{URL: url, Log: backendtest.TestLog(), ListenTime: backendtest.Patience})
}

func sseBackend(url string) exchange.Backend {
	return NewSSE(httpconn.SSEConfig{URL: url, Log: backendtest.TestLog()})
}

// open connects b to its server for the time of the test, and listens.
func open(t *testing.T, b exchange.Backend, session exchange.Peer) exchange.Conn {
	t.Helper()
	conn, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conn.Listen()
	return conn
}

func closeAfter(t *testing.T, b exchange.Backend) exchange.Backend {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// script is a hand-written server of streamable HTTP, for what a well-behaved
// one does not do. It answers initialize itself and leaves other requests to
// post; get, if set, takes GET.
type script struct {
	post func(w http.ResponseWriter, r *http.Request, m *mcp.Message)
	get  func(w http.ResponseWriter, r *http.Request)
	// stateless leaves out the session id.
	stateless bool
	// forgot answers everything with 404.
	forgot atomic.Bool

	mu       sync.Mutex
	requests []string // "POST tools/call", "GET", "DELETE"
	cancels  []string // params of the cancellations
	deleted  chan struct{}
}

func newScript(post func(http.ResponseWriter, *http.Request, *mcp.Message)) *script {
	return &script{post: post, deleted: make(chan struct{}, 10)}
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.forgot.Load() {
		rpcStatus(w, 404, mcp.CodeSessionNotFound, "Session not found")
		return
	}
	switch r.Method {
	case http.MethodGet:
		s.note("GET")
		if s.get == nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.get(w, r)
	case http.MethodDelete:
		s.note("DELETE")
		s.deleted <- struct{}{}
	case http.MethodPost:
		body := make([]byte, r.ContentLength)
		if _, err := readFull(r, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := mcp.Parse(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.note("POST " + m.Method)
		s.serve(w, r, m)
	}
}

func readFull(r *http.Request, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Body.Read(b[n:])
		n += k
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}

func (s *script) serve(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
	switch {
	case m.Method == mcp.MethodInitialize:
		if !s.stateless {
			w.Header().Set(mcp.HeaderSessionID, "the-session")
		}
		reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
	case m.Method == mcp.NotificationCancelled:
		s.mu.Lock()
		s.cancels = append(s.cancels, string(m.Params))
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	case m.Kind() == mcp.Notification:
		w.WriteHeader(http.StatusAccepted)
	default:
		s.post(w, r, m)
	}
}

func (s *script) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, what)
}

func (s *script) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, ", ")
}

func reply(w http.ResponseWriter, id mcp.ID, result string) {
	w.Header().Set("Content-Type", mcp.TypeJSON)
	_, _ = w.Write(mcp.NewResult(id, json.RawMessage(result)).Encode())
}

// events writes events as a stream and flushes them.
func events(w http.ResponseWriter, all ...mcp.Event) {
	w.Header().Set("Content-Type", mcp.TypeEventStream)
	for _, ev := range all {
		_, _ = w.Write(mcp.AppendEvent(nil, ev))
	}
	_ = http.NewResponseController(w).Flush()
}

func event(m *mcp.Message) mcp.Event { return mcp.Event{Data: m.Encode()} }
