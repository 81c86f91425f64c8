package bridge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/toolhaven/toolhaven/internal/gateway/backend"
)

// The SDK keeps the sessions of a server that is replaced or gone.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// server is an MCP server of the Go SDK over HTTP, which can lose all its sessions.
type server struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
	waiting chan struct{} // a call of wait has begun
	ended   chan error    // how the context of wait ended
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{waiting: make(chan struct{}, 1), ended: make(chan error, 1)}
	s.restart()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*s.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

type text struct {
	Text string `json:"text"`
}

// restart replaces the server by one that has no sessions.
func (s *server) restart() {
	m := sdk.NewServer(&sdk.Implementation{Name: "server", Version: "1"}, nil)
	reply := func(text string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	}
	sdk.AddTool(m, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		return reply(in.Text)
	})
	sdk.AddTool(m, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		roots, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		return reply(roots.Roots[0].URI)
	})
	sdk.AddTool(m, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ text) (*sdk.CallToolResult, any, error) {
		s.waiting <- struct{}{}
		<-ctx.Done()
		s.ended <- ctx.Err()
		return nil, nil, ctx.Err()
	})
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return m }, nil)
	s.handler.Store(&h)
}

// start runs a Bridge to the server; the ends of its streams are the client's.
func (s *server) start(t *testing.T) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	to := backend.NewStreamable(backend.StreamableConfig{URL: s.URL, Transport: &http.Transport{}, Log: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() {
		err := New(to, outW, slog.New(slog.DiscardHandler)).Run(context.Background(), inR)
		outW.Close()
		done <- err
	}()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		if err := within(t, done); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	return inW, outR
}

func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Error("nothing within a minute")
	}
	return v
}

func connect(t *testing.T, s *server, options *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	in, out := s.start(t)
	client := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, options)
	client.AddRoots(&sdk.Root{URI: "file:///mine"})
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func callText(t *testing.T, session *sdk.ClientSession, params *sdk.CallToolParams) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*sdk.TextContent).Text
}

func TestSessionOfAnSDKClient(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	progress := make(chan any, 1)
	session := connect(t, s, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		progress <- r.Params.ProgressToken
	}})
	if got := session.InitializeResult().ServerInfo.Name; got != "server" {
		t.Error(got)
	}
	if got := callText(t, session, &sdk.CallToolParams{Name: "echo", Arguments: text{"hi"}}); got != "hi" {
		t.Error(got)
	}
	// A request of the server, and a notification, within a call.
	params := &sdk.CallToolParams{Name: "ask", Arguments: text{}}
	params.SetProgressToken("mine")
	if got := callText(t, session, params); got != "file:///mine" {
		t.Error(got)
	}
	if token := within(t, progress); token != "mine" {
		t.Error(token)
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	session := connect(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "wait", Arguments: text{}})
		done <- err
	}()
	within(t, s.waiting)
	cancel()
	if err := within(t, s.ended); err == nil {
		t.Error("the server's context did not end")
	}
	if err := within(t, done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestLostSessionIsBegunAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	changed := make(chan struct{}, 8)
	session := connect(t, s, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }})
	s.restart()
	s.CloseClientConnections()
	// tools/list is sent again; the client does not notice.
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 3 {
		t.Fatalf("%v, %v", tools, err)
	}
	within(t, changed)
	if got := callText(t, session, &sdk.CallToolParams{Name: "echo", Arguments: text{"again"}}); got != "again" {
		t.Error(got)
	}
}

// A raw client writes lines and reads lines.
type rawClient struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func newRaw(t *testing.T, s *server) *rawClient {
	t.Helper()
	in, out := s.start(t)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &rawClient{t, in, lines}
}

func (c *rawClient) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads a line that has all parts.
func (c *rawClient) expect(parts ...string) {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the output ended: %v", c.out.Err())
	}
	for _, part := range parts {
		if !strings.Contains(c.out.Text(), part) {
			c.t.Errorf("%q is not in %s", part, c.out.Text())
		}
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

func TestLinesOfARawClient(t *testing.T) {
	t.Parallel()
	c := newRaw(t, newServer(t))
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.expect(`"id":1`, "initialize must be the first request")
	c.send(`nonsense`)
	c.expect(`"id":null`, `-32700`)
	c.send("\r")
	c.send(initialize + "\r")
	c.expect(`"id":0`, `"protocolVersion":"2025-03-26"`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(`[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}},{"jsonrpc":"2.0","id":"b","method":"ping"}]`)
	c.expect(`[{`, `"id":"a"`, `"id":"b"`)
	c.send(`[` + initialize + `]`)
	c.expect(`must not be part of a batch`)
	c.send(`{"jsonrpc":"2.0","id":7,"result":{}}`) // to nothing
	c.send(strings.Repeat("x", 17<<20))
	c.expect(`"id":null`, "larger than 16777216 bytes")
	c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	c.expect(`"id":2`, `"result":{}`)
	c.send(initialize)
	c.expect(`"id":0`, `"result"`)
	// What was sent before the end of the input is answered.
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"last"}}}`)
	c.in.Close()
	c.expect(`"id":3`, "last")
	if c.out.Scan() {
		t.Error(c.out.Text())
	}
}

func TestStatelessEra(t *testing.T) {
	t.Parallel()
	c := newRaw(t, newServer(t))
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	c.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`)
	c.expect(`"id":1`, `"supportedVersions"`, "2026-07-28")
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + meta + `,"name":"echo","arguments":{"text":"hi"}}}`)
	c.expect(`"id":2`, `"hi"`)
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{` + meta + `,"name":"wait","arguments":{"text":""}}}`)
	c.send(`{"jsonrpc":"2.0","id":3,"method":"ping","params":{` + meta + `}}`)
	c.expect(`"id":3`, "a request with this id is pending")
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	c.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{` + meta + `,"name":"echo","arguments":{"text":"after"}}}`)
	c.expect(`"id":4`, `"after"`)
	// Both eras on one connection.
	c.send(initialize)
	c.expect(`"id":0`, `"result"`)
}

func TestServerThatIsGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newRaw(t, s)
	c.send(initialize)
	c.expect(`"id":0`, `"result"`)
	s.CloseClientConnections()
	s.Server.Close()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.expect(`"id":1`, `"code":-32000`)
}

func TestClientThatIsGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	in, out := s.start(t)
	out.Close()
	if _, err := io.WriteString(in, initialize+"\n"); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Log(err)
	}
	// start's cleanup waits for the end of Run.
}
