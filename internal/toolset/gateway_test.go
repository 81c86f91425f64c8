package toolset_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/toolset"
)

// server is an HTTP server of MCP 2026-07-28 with the tools add, whose argument "who" is
// repeated in a header, and secret. It rejects a call whose headers differ from its body.
type server struct {
	*httptest.Server
	calls atomic.Int32 // of any tool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m, parseErr := mcp.Parse(body)
	if r.Method != http.MethodPost || err != nil || parseErr != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := func(status int, member string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID.Raw(), member)
	}
	var params struct {
		Name      string
		Arguments struct{ Who string }
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		answer(400, `"error":{"code":-32602,"message":"params"}`)
		return
	}
	switch m.Method {
	case mcp.MethodDiscover:
		answer(200, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	case mcp.MethodToolsList:
		answer(200, `"result":{"resultType":"complete","tools":[{"name":"add","inputSchema":{"type":"object","properties":{"who":{"type":"string","x-mcp-header":"Who"}}}},{"name":"secret","inputSchema":{"type":"object"}}]}`)
	case mcp.MethodToolsCall:
		s.calls.Add(1)
		if r.Header.Get("Mcp-Name") != params.Name || r.Header.Get("Mcp-Param-Who") != params.Arguments.Who {
			answer(400, `"error":{"code":-32020,"message":"a header differs from the body"}`)
			return
		}
		answer(200, `"result":{"resultType":"complete","content":[{"type":"text","text":"`+params.Name+` by `+params.Arguments.Who+`"}]}`)
	default:
		answer(404, `"error":{"code":-32601,"message":"no such method"}`)
	}
}

// front starts a gateway with the tools configuration in front of s and returns its URL.
func front(t *testing.T, s *server, cfg toolset.Config) string {
	t.Helper()
	b := backend.NewStreamable(backend.StreamableConfig{URL: s.URL, Transport: http.DefaultTransport, Log: slog.New(slog.DiscardHandler)})
	g, err := gateway.New(gateway.Config{
		Backend: b, Name: "test", Endpoint: endpoint.Config{Mode: endpoint.Streamable},
		Stages: gateway.Stages{Tools: toolset.New(cfg, slog.New(slog.DiscardHandler)).Stage},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return srv.URL + "/mcp"
}

// post sends a request with the headers, as "Name: value", and returns status, session id and
// body of the response.
func post(t *testing.T, url, body string, headers ...string) (status int, session, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id"), string(b)
}

var renamed = toolset.Config{Filter: []string{"plus"}, Overrides: map[string]toolset.Override{"add": {Name: "plus"}}}

// The headers of a client repeat the visible name; the server receives its own in body and
// headers (MCP 2026-07-28, Streamable HTTP, Standard Headers).
func TestGateway_StatelessHeaders(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	url := front(t, s, renamed)
	for _, row := range []struct {
		name, header, tool, param string
		status                    int
		want                      string
		calls                     int32 // at the server
	}{
		{"the visible name", "plus", "plus", "me", 200, "add by me", 1},
		{"the server's name in the header", "add", "plus", "me", 400, "-32020", 0},
		{"the server's name", "add", "add", "me", 400, "Unknown tool: add", 0},
		{"a tool that is filtered out", "secret", "secret", "", 400, "Unknown tool: secret", 0},
	} {
		before := s.calls.Load()
		headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: " + row.header}
		if row.param != "" {
			headers = append(headers, "Mcp-Param-Who: "+row.param)
		}
		status, _, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+row.tool+`","arguments":{"who":"`+row.param+`"},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, headers...)
		if status != row.status || !strings.Contains(body, row.want) || s.calls.Load()-before != row.calls {
			t.Errorf("%s: %d %s, and %d calls of the server", row.name, status, body, s.calls.Load()-before)
		}
	}
}

// A client with a session has no headers: the gateway makes them for the server, of the
// server's own name and of the arguments in the schema of that tool.
func TestGateway_Session(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	url := front(t, s, renamed)
	_, session, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if session == "" {
		t.Fatal(body)
	}
	for _, row := range []struct{ method, params, want, never string }{
		{"tools/list", `{}`, `"name":"plus"`, `secret`},
		{"tools/call", `{"name":"plus","arguments":{"who":"me"}}`, "add by me", "error"},
		{"tools/call", `{"name":"secret"}`, `"error":{"code":-32602,"message":"Unknown tool: secret"}`, "content"},
	} {
		status, _, body := post(t, url, `{"jsonrpc":"2.0","id":2,"method":"`+row.method+`","params":`+row.params+`}`, "Mcp-Session-Id: "+session, "MCP-Protocol-Version: 2025-11-25")
		if status != 200 || !strings.Contains(body, row.want) || strings.Contains(strings.ReplaceAll(body, row.want, ""), row.never) {
			t.Errorf("%s %s: %d %s", row.method, row.params, status, body)
		}
	}
}
