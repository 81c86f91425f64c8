package backend

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// modernAt is the way to a server of the stateless era that h plays.
func modernAt(t *testing.T, h http.Handler) wire.Stateless {
	t.Helper()
	return modernTo(t, serve(t, h).URL)
}

func modernTo(t *testing.T, url string) wire.Stateless {
	t.Helper()
	m := httpconn.NewStateless(httpconn.StreamableConfig{URL: url, Log: backendtest.TestLog()}.WithDefaults())
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// answerBy is a server that reads a request and leaves the answer to h.
func answerBy(h func(w http.ResponseWriter, r *http.Request, m *mcp.Message)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := mcp.Parse(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h(w, r, m)
	})
}

func TestModernHTTPHeadersSayWhatTheBodySays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, params string
		extra                http.Header
		want                 map[string]string // "" for a header that must not be there
	}{
		{"a tool", mcp.MethodToolsCall, `{"name":"echo"}`, nil, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo"}},
		{"a prompt", mcp.MethodPromptsGet, `{"name":"greet me"}`, nil, map[string]string{"Mcp-Method": "prompts/get", "Mcp-Name": "greet me"}},
		{"a resource", mcp.MethodResourcesRead, `{"uri":"file:///a?b#c","name":"x"}`, nil, map[string]string{"Mcp-Name": "file:///a?b#c"}},
		{"a task", "tasks/get", `{"taskId":"t-1"}`, nil, map[string]string{"Mcp-Method": "tasks/get", "Mcp-Name": "t-1"}},
		{"a list", mcp.MethodToolsList, `{"name":"x"}`, nil, map[string]string{"Mcp-Method": "tools/list", "Mcp-Name": ""}},
		{"no name", mcp.MethodToolsCall, `{}`, nil, map[string]string{"Mcp-Name": ""}},
		{"a name that is not ASCII", mcp.MethodToolsCall, `{"name":"日本語"}`, nil, map[string]string{"Mcp-Name": "=?base64?5pel5pys6Kqe?="}},
		{"a name with a line break", mcp.MethodToolsCall, `{"name":"line1\nline2"}`, nil, map[string]string{"Mcp-Name": "=?base64?bGluZTEKbGluZTI=?="}},
		{"a name with a space before", mcp.MethodToolsCall, `{"name":" us-west1"}`, nil, map[string]string{"Mcp-Name": "=?base64?IHVzLXdlc3Qx?="}},
		{"a name with a tab after", mcp.MethodToolsCall, `{"name":"x\t"}`, nil, map[string]string{"Mcp-Name": "=?base64?eAk=?="}},
		{"a name that looks encoded", mcp.MethodToolsCall, `{"name":"=?base64?literal?="}`, nil, map[string]string{"Mcp-Name": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}},
		{"a name with NUL", mcp.MethodToolsCall, `{"name":"a\u0000b"}`, nil, map[string]string{"Mcp-Name": "=?base64?YQBi?="}},
		{"parameters", mcp.MethodToolsCall, `{"name":"x"}`,
			http.Header{"Mcp-Param-Region": {"us-west1"}, "Mcp-Name": {"forged"}, "Authorization": {"Bearer x"}, "Mcp-Session-Id": {"s"}},
			map[string]string{"Mcp-Param-Region": "us-west1", "Mcp-Name": "x", "Authorization": "", "Mcp-Session-Id": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got http.Header
			var body *mcp.Message
			m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
				if r.Method != http.MethodPost {
					t.Error(r.Method)
				}
				got, body = r.Header.Clone(), m
				reply(w, m.ID, backendtest.Done)
			}))
			x := modernExchange(backendtest.Request(mcp.StringID("mine"), tt.method, tt.params), nil)
			x.Headers = tt.extra
			if answer := backendtest.Text(m.Do(backendtest.TestContext(t), x)); answer != "done" {
				t.Fatal(answer)
			}
			if diff := cmp.Diff(string(x.Request.Encode()), string(body.Encode())); diff != "" {
				t.Error(diff) // the very request, with the client's own id
			}
			tt.want["Content-Type"] = "application/json"
			tt.want["Accept"] = "application/json, text/event-stream"
			tt.want["Mcp-Protocol-Version"] = "2026-07-28"
			tt.want["Last-Event-Id"] = ""
			for key, want := range tt.want {
				if values := got.Values(key); want == "" && len(values) > 0 || want != "" && (len(values) != 1 || values[0] != want) {
					t.Errorf("%s: %q, want %q", key, values, want)
				}
			}
		})
	}
}

func TestStateless_RejectsUnreadableParams(t *testing.T) {
	t.Parallel()
	m := modernAt(t, answerBy(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
		t.Error("it was sent")
		reply(w, m.ID, backendtest.Done)
	}))
	for _, params := range []string{
		`{"name":"a","name":"b","_meta":{}}`, `{"name":"a","Name":"b"}`, `{"name":7}`,
		`{"name":"` + strings.Repeat("x", 12<<10+1) + `"}`,
	} {
		x := &exchange.Exchange{Request: backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall, params)}
		if answer, err := m.Do(backendtest.TestContext(t), x); backendtest.CodeOf(err) != mcp.CodeInvalidParams {
			t.Errorf("%.60s: %v, %v", params, answer, err)
		}
	}
}

func TestStateless_VersionHeader(t *testing.T) {
	t.Parallel()
	var got string
	m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		got = r.Header.Get(mcp.HeaderVersion)
		reply(w, m.ID, backendtest.Done)
	}))
	x := &exchange.Exchange{Request: backendtest.Request(mcp.IntID(1), mcp.MethodToolsList, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`)}
	x.Meta = backendtest.MetaOf(x.Request)
	if _, err := m.Do(backendtest.TestContext(t), x); err != nil || got != "2027-01-01" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestModernHTTPIdsKeepTheirType(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		m := modernAt(t, echoHandler(stream))
		for _, id := range []mcp.ID{mcp.IntID(1), mcp.StringID("1"), mcp.IntID(-7), mcp.StringID("ü \" \n"), mcp.StringID("")} {
			answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(id, "echo", `{}`), nil))
			if err != nil || answer.ID != id {
				t.Errorf("asked with id %s, answered with %v, %v", id, answer, err)
			}
		}
	}
}

// The answers of servers, good and bad, with status 200.
func TestModernHTTPAnswers(t *testing.T) {
	t.Parallel()
	note := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`, n)
	}
	result := `{"jsonrpc":"2.0","id":7,"result":` + backendtest.Done + `}`
	data := func(all ...string) string { return "data: " + strings.Join(all, "\n\ndata: ") + "\n\n" }
	const j, s = mcp.TypeJSON, mcp.TypeEventStream
	tests := []struct {
		name, contentType, body string
		want                    string // part of what text says
		notes                   int
	}{
		{"JSON", j, result, "done", 0},
		{"JSON with parameters", j + "; charset=utf-8", result, "done", 0},
		{"a stream", s, data(result), "done", 0},
		{"a stream with notifications", s, data(note(1), note(2), result), "done", 2},
		{"an error", j, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"bad"}}`, "rpc error -32602: bad", 0},
		{"an error without id", j, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}`, "rpc error -32700: bad", 0},
		{"an error without id on a stream", s, data(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}`), "rpc error -32700: bad", 0},
		{"CR, comments, ids, retry, other events", s,
			": hello\r\rid: 5\rretry: 100\rdata:\r\revent: ping\rdata: {\r\rdata: {\"jsonrpc\":\"2.0\",\rdata: \"id\":7,\"result\":" + backendtest.Done + "}\r\r", "done", 0},
		{"a log line in the stream", s, data("server started", note(1), result), "done", 1},
		{"requests of the server", s, data(`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`, `{"jsonrpc":"2.0","id":8,"method":"ping"}`, result), "done", 0},
		{"cancellation by the server", s, data(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, result), "done", 0},
		{"what comes after the answer", s, data(result, note(1), note(2)), "done", 0},

		{"the id as text", j, strings.Replace(result, ":7,", `:"7",`, 1), "done", 0},
		{"another id", s, data(note(1), strings.Replace(result, ":7,", `:8,`, 1), result), "response to another request than tools/call", 1},
		{"a result without id", j, `{"jsonrpc":"2.0","id":null,"result":{}}`, "not a JSON-RPC message", 0},
		{"neither result nor error", j, `{"jsonrpc":"2.0","id":7}`, "not a JSON-RPC message", 0},
		{"both result and error", s, data(`{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}`), "cannot be understood", 0},
		{"keys twice", j, `{"jsonrpc":"2.0","id":7,"id":7,"result":{}}`, "not a JSON-RPC message", 0},
		{"a batch", j, `[` + result + `]`, "not a JSON-RPC message", 0},
		{"a notification instead", j, note(1), "with a notifications/progress instead of a response", 0},
		{"a request instead", j, `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}`, "with a sampling/createMessage instead of a response", 0},
		{"no body", j, "", "not a JSON-RPC message", 0},
		{"cut off", j, result[:30], "not a JSON-RPC message", 0},
		{"invalid UTF-8", j, strings.Replace(result, "done", "\xff", 1), "not a JSON-RPC message", 0},
		{"a stream that ends", s, data(note(1)), "ended the stream without answering tools/call", 1},
		{"an answer cut off in the stream", s, "data: " + result + "\n", "ended the stream without answering tools/call", 0},
		{"a stream of nothing", s, "", "ended the stream without answering tools/call", 0},
		{"HTML", "text/html; charset=utf-8", "<html>", `with content type "text/html" instead of JSON or an event stream`, 0},
		{"no type", "", result, `instead of JSON or an event stream`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var posts atomic.Int64
			m := modernAt(t, answerBy(func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
				posts.Add(1)
				w.Header()["Content-Type"] = []string{tt.contentType}
				_, _ = io.WriteString(w, tt.body)
			}))
			p := backendtest.NewPeer()
			p.Answer = func(context.Context, *mcp.Message) (*mcp.Message, error) {
				t.Error("the client was asked")
				return nil, errors.New("no")
			}
			answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), p))
			if got := backendtest.Text(answer, err); !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if err != nil && (backendtest.CodeOf(err) != mcp.CodeServerGone || isOtherEra(err)) {
				t.Errorf("%v", err)
			}
			if len(p.Notes) != tt.notes {
				t.Errorf("%d notifications, want %d", len(p.Notes), tt.notes)
			}
			for n := 1; n <= tt.notes; n++ {
				if got := <-p.Notes; string(got.Encode()) != note(n) {
					t.Errorf("notification %d is %s", n, got.Encode())
				}
			}
			if posts.Load() != 1 {
				t.Errorf("sent %d times", posts.Load())
			}
		})
	}
}

// The refusals of servers, and what is in front of them.
func TestModernHTTPRefusals(t *testing.T) {
	t.Parallel()
	rpc := func(id string, code int, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"%s}}`, id, code, data)
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   string // part of what text says; "other era: " before it when it is
	}{
		{"header mismatch", 400, rpc("7", -32020, ""), "rpc error -32020"},
		{"missing capability, id unread", 400, rpc("null", -32021, ""), "rpc error -32021"},
		{"another modern version", 400, rpc("7", -32022, `,"data":{"supported":["2027-01-01","2025-11-25"]}`), "rpc error -32022"},
		{"versions not said", 400, rpc("7", -32022, ""), "rpc error -32022"},
		{"versions of the session era only", 400, rpc("7", -32022, `,"data":{"supported":["2025-11-25"]}`), "other era: no"},
		{"no versions at all", 400, rpc("7", -32022, `,"data":{"supported":[]}`), "other era: no"},
		{"the same with 200", 200, rpc("7", -32022, `,"data":{"supported":["2025-11-25"]}`), "other era: no"},
		{"unknown method", 404, rpc("7", -32601, ""), "rpc error -32601"},
		{"invalid params", 400, rpc("7", -32602, ""), "rpc error -32602"},
		{"an application's error", 400, rpc("7", 1234, ""), "rpc error 1234"},
		{"internal error", 500, rpc("7", -32603, ""), "rpc error -32603"},
		{"busy", 503, rpc("7", -32000, ""), "rpc error -32000"},
		// What servers of the session era say to a request without a session.
		{"the TypeScript SDK's example", 400, rpc("null", -32000, ""), "other era: "},
		{"npm server-everything", 400, rpc("7", -32000, ""), "other era: "},
		{"the TypeScript SDK, unknown session", 404, rpc("null", -32001, ""), "other era: "},
		{"the Python SDK", 400, rpc(`"server-error"`, -32600, ""), "other era: "},
		{"parse error, id unread", 400, rpc("null", -32700, ""), "other era: "},
		{"the Go SDK", 400, "Bad Request: Unsupported protocol version", "other era: "},
		{"HTTP+SSE", 405, "", "other era: "},
		{"HTTP+SSE with another router", 404, "<html>404</html>", "other era: "},
		{"not acceptable", 406, "", "other era: "},
		// Who asks, where, and how often says nothing about the era.
		{"no credential", 401, rpc("7", -32020, ""), "error: the server at"},
		{"not allowed", 403, "", "does not allow tools/call"},
		{"a redirect", 307, "", "redirects are not followed"},
		{"a permanent redirect", 301, rpc("7", -32020, ""), "redirects are not followed"},
		{"too many", 429, "", "refused tools/call with HTTP 429"},
		{"too large", 413, "", "refused tools/call with HTTP 413"},
		{"a broken gateway", 502, "<html>", "refused tools/call with HTTP 502"},
		{"taken without an answer", 202, "", "with HTTP 202 but sent no response"},
		{"no content", 204, "", "with HTTP 204 but sent no response"},
		{"somebody else's error", 500, rpc("8", -32603, ""), "refused tools/call with HTTP 500"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var posts atomic.Int64
			m := modernAt(t, answerBy(func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
				posts.Add(1)
				w.Header().Set("Content-Type", mcp.TypeJSON)
				w.Header().Set("Location", "https://elsewhere.example/mcp")
				w.WriteHeader(tt.status)
				if tt.status != http.StatusNoContent {
					_, _ = io.WriteString(w, tt.body)
				}
			}))
			answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))
			got := backendtest.Text(answer, err)
			if isOtherEra(err) {
				got = "other era: " + err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if err == nil && answer.ID != mcp.IntID(7) {
				t.Errorf("answered with id %s", answer.ID)
			}
			if posts.Load() != 1 {
				t.Errorf("sent %d times", posts.Load())
			}
		})
	}
}

func TestModernHTTPCompressedAnswer(t *testing.T) {
	t.Parallel()
	m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		w.Header().Set("Content-Type", mcp.TypeJSON)
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(mcp.NewResult(m.ID, json.RawMessage(backendtest.Done)).Encode())
		_ = z.Close()
	}))
	if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))); got != "done" {
		t.Error(got)
	}
}

func TestModernHTTPEventsInPieces(t *testing.T) {
	t.Parallel()
	m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		w.Header().Set("Content-Type", mcp.TypeEventStream)
		all := mcp.AppendEvent(nil, event(&mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(`{"progressToken":1,"progress":1}`)}))
		all = mcp.AppendEvent(all, event(mcp.NewResult(m.ID, json.RawMessage(backendtest.Done))))
		for _, b := range all {
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
		}
	}))
	p := backendtest.NewPeer()
	if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), p))); got != "done" || len(p.Notes) != 1 {
		t.Errorf("%s, %d notifications", got, len(p.Notes))
	}
}

func TestModernHTTPUnreachable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	url := s.URL
	s.Close()
	for _, u := range []string{url + "/mcp?key=secret", "not a url", "ftp://x"} {
		answer, err := modernTo(t, u).Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))
		if err == nil || isOtherEra(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, %v", answer, err)
		}
	}
}

func TestModernHTTPUsesConnectionsAgain(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			connections := map[string]bool{}
			echo := echoHandler(stream)
			m := modernTo(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				connections[r.RemoteAddr] = true
				mu.Unlock()
				echo.ServeHTTP(w, r)
			})).URL)
			for range 50 {
				ctx, cancel := context.WithCancel(backendtest.TestContext(t))
				if got := backendtest.Text(m.Do(ctx, modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))); got != "hello" {
					t.Fatal(got)
				}
				cancel()
			}
			// The end of a stream may come a moment later than the next request.
			if len(connections) > 10 {
				t.Errorf("%d connections for 50 requests", len(connections))
			}
		})
	}
}

func TestModernHTTPNothingCrosses(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
			name, _, _ := mcp.LookupString(m.Params, "name")
			answer := mcp.NewResult(m.ID, json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, name)))
			if stream {
				events(w, event(&mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(fmt.Sprintf(`{"data":%q}`, name))}), event(answer))
				return
			}
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = w.Write(answer.Encode())
		}))
		var wg sync.WaitGroup
		for n := range 32 {
			wg.Go(func() {
				for k := range 50 {
					name, p := fmt.Sprint(n, " ", k), backendtest.NewPeer()
					if got := backendtest.Text(m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(1), name, `{}`), p))); got != name {
						t.Errorf("%s instead of %s", got, name)
					}
					if !stream {
						continue
					}
					if got := string((<-p.Notes).Params); got != fmt.Sprintf(`{"data":%q}`, name) || len(p.Notes) > 0 {
						t.Errorf("%s heard %s", name, got)
					}
				}
			})
		}
		wg.Wait()
	}
}

// MCP 2026-07-28, Versioning, Backward Compatibility: a server that has no
// initialize is no HTTP+SSE server because of that.
func TestDetect_ServerWithoutInitialize(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
	}{
		"unknown method":      {http.StatusNotFound, `{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no initialize"}}`},
		"no version in _meta": {http.StatusBadRequest, `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"_meta"}}`},
		"no header":           {http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"Mcp-Method"}}`},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			w.WriteHeader(row.status)
			_, _ = w.Write([]byte(row.body))
		}))
		got, err := httpconn.Detect(t.Context(), srv.URL, nil)
		srv.Close()
		if err != nil || got != httpconn.TransportStreamable {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
