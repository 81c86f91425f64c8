package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// statelessMeta is the _meta of a stateless request, with members of the client's
// capabilities.
func statelessMeta(capabilities string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{` + capabilities +
		`},"io.modelcontextprotocol/clientInfo":{"name":"wire","version":"1"}}`
}

// statelessHeaders are those of a stateless request.
func statelessHeaders(method, name string, more ...string) []string {
	h := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
	if name != "" {
		h = append(h, "Mcp-Name: "+name)
	}
	return append(h, more...)
}

func TestStateless_Rules(t *testing.T) {
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == "unknown" {
			return mcp.NewError(x.Request.ID, mcp.CodeMethodNotFound, "there is no such method"), nil
		}
		return echo(x), nil
	}
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	list := req("7", "tools/list", `{`+statelessMeta("")+`}`)
	call := req("7", "tools/call", `{"name":"add","arguments":{},`+statelessMeta("")+`}`)
	meta := func(meta string) string { return req("7", "tools/list", `{"_meta":{`+meta+`}}`) }
	const version, capabilities = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for _, row := range []struct {
		name, method, body string
		headers            []string
		status, code       int
		id                 string
	}{
		// MCP 2026-07-28, basic/transports/streamable-http, Standard Headers.
		{name: "a proper one", body: list, headers: statelessHeaders("tools/list", ""), status: 200, id: "7"},
		{name: "with a name", body: call, headers: statelessHeaders("tools/call", "add"), status: 200, id: "7"},
		{name: "with two names", body: req("7", "tools/call", `{"name":"add","Name":"drop",`+statelessMeta("")+`}`), headers: statelessHeaders("tools/call", "add"), status: 400, code: -32602, id: "7"},
		{name: "with an encoded name", body: call, headers: statelessHeaders("tools/call", "=?base64?YWRk?="), status: 200, id: "7"},
		{name: "unknown parameter headers are passed on", body: call, headers: statelessHeaders("tools/call", "add", "Mcp-Param-Who: me"), status: 200, id: "7"},
		{name: "an old session id is ignored", body: list, headers: statelessHeaders("tools/list", "", "Mcp-Session-Id: x"), status: 200, id: "7"},
		{name: "Last-Event-ID is ignored", body: list, headers: statelessHeaders("tools/list", "", "Last-Event-ID: 1-1"), status: 200, id: "7"},
		{name: "no version header", body: list, headers: []string{"Mcp-Method: tools/list"}, status: 400, code: -32020, id: "7"},
		{name: "another version in the header", body: list, headers: []string{"Mcp-Protocol-Version: 2025-11-25", "Mcp-Method: tools/list"}, status: 400, code: -32020, id: "7"},
		{name: "no method header", body: list, headers: []string{"Mcp-Protocol-Version: 2026-07-28"}, status: 400, code: -32020, id: "7"},
		{name: "another method in the header", body: list, headers: statelessHeaders("tools/call", ""), status: 400, code: -32020, id: "7"},
		{name: "the method in another case", body: list, headers: statelessHeaders("Tools/List", ""), status: 400, code: -32020, id: "7"},
		{name: "no name header", body: call, headers: statelessHeaders("tools/call", ""), status: 400, code: -32020, id: "7"},
		{name: "another name in the header", body: call, headers: statelessHeaders("tools/call", "sub"), status: 400, code: -32020, id: "7"},
		{name: "an encoded name that is no Base64", body: call, headers: statelessHeaders("tools/call", "=?base64?YW!?="), status: 400, code: -32020, id: "7"},
		{name: "the marker in another case", body: call, headers: statelessHeaders("tools/call", "=?BASE64?YWRk?="), status: 400, code: -32020, id: "7"},
		// basic, _meta.
		{name: "no version in _meta", body: meta(capabilities), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		{name: "no _meta", body: req("7", "tools/list", `{}`), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		{name: "no params", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		{name: "no capabilities", body: meta(version), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		{name: "capabilities that are a list", body: meta(version + `,"io.modelcontextprotocol/clientCapabilities":[]`), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		{name: "a version that is a number", body: meta(`"io.modelcontextprotocol/protocolVersion":20260728,` + capabilities), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		{name: "a version twice", body: meta(version + "," + version + "," + capabilities), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		// Versioning.
		{name: "a later version", body: strings.Replace(list, "2026-07-28", "2027-01-01", 1), headers: []string{"Mcp-Protocol-Version: 2027-01-01", "Mcp-Method: tools/list"}, status: 400, code: -32022, id: "7"},
		{name: "a version that is none", body: strings.Replace(list, "2026-07-28", "1900-01-01", 1), headers: []string{"Mcp-Protocol-Version: 1900-01-01", "Mcp-Method: tools/list"}, status: 400, code: -32022, id: "7"},
		// What the era no longer has, whatever the server supports.
		{name: "initialize", body: req("7", "initialize", `{`+statelessMeta("")+`}`), headers: statelessHeaders("initialize", ""), status: 404, code: -32601, id: "7"},
		{name: "ping", body: req("7", "ping", `{`+statelessMeta("")+`}`), headers: statelessHeaders("ping", ""), status: 404, code: -32601, id: "7"},
		{name: "logging/setLevel", body: req("7", "logging/setLevel", `{"level":"info",`+statelessMeta("")+`}`), headers: statelessHeaders("logging/setLevel", ""), status: 404, code: -32601, id: "7"},
		{name: "resources/subscribe", body: req("7", "resources/subscribe", `{"uri":"a:b",`+statelessMeta("")+`}`), headers: statelessHeaders("resources/subscribe", ""), status: 404, code: -32601, id: "7"},
		{name: "tasks/result", body: req("7", "tasks/result", `{"taskId":"x",`+statelessMeta("")+`}`), headers: statelessHeaders("tasks/result", ""), status: 404, code: -32601, id: "7"},
		{name: "tasks/list", body: req("7", "tasks/list", `{`+statelessMeta("")+`}`), headers: statelessHeaders("tasks/list", ""), status: 404, code: -32601, id: "7"},
		// Logging.
		{name: "a log level that does not exist", body: meta(version + "," + capabilities + `,"io.modelcontextprotocol/logLevel":"loud"`), headers: statelessHeaders("tools/list", ""), status: 400, code: -32602, id: "7"},
		// Error Handling.
		{name: "an unknown method", body: req("7", "unknown", `{`+statelessMeta("")+`}`), headers: statelessHeaders("unknown", ""), status: 404, code: -32601, id: "7"},
		{name: "an unknown method, by who takes streams only", body: req("7", "unknown", `{`+statelessMeta("")+`}`), headers: statelessHeaders("unknown", "", "Accept: text/event-stream"), status: 404, code: -32601, id: "7"},
		{name: "a batch", body: "[" + list + "]", headers: statelessHeaders("tools/list", ""), status: 400, code: -32600},
		{name: "a response", body: `{"jsonrpc":"2.0","id":7,"result":{}}`, headers: statelessHeaders("x", ""), status: 400, code: -32600},
		{name: "a notification", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, headers: statelessHeaders("notifications/cancelled", ""), status: 202},
		{name: "a subscription by who takes no stream", body: req("7", "subscriptions/listen", `{"notifications":{},`+statelessMeta("")+`}`), headers: statelessHeaders("subscriptions/listen", "", "Accept: application/json"), status: 406, code: -32600, id: "7"},
		{name: "GET", method: "GET", headers: []string{"Mcp-Protocol-Version: 2026-07-28", "Accept: text/event-stream"}, status: 405},
		{name: "DELETE", method: "DELETE", headers: []string{"Mcp-Protocol-Version: 2026-07-28"}, status: 405},
		// A mark in an argument is none.
		{name: "a session's request that speaks of it", body: req("7", "tools/call", `{"name":"add","arguments":{"_meta":{`+version+`}}}`), status: 400, code: -32600, id: "7"},
		// An escaped letter is the same letter (RFC 8259 section 7).
		{name: "no version header, and an escaped _meta", body: strings.Replace(list, "protocolV", `protocol\u0056`, 1), headers: []string{"Mcp-Method: tools/list"}, status: 400, code: -32020, id: "7"},
		{name: "a requestState that we did not give, escaped", body: req("7", "tools/call", `{"name":"add","request\u0053tate":"AAAA",`+statelessMeta("")+`}`), headers: statelessHeaders("tools/call", "add"), status: 400, code: -32602, id: "7"},
		{name: "a requestState that we did not give", body: req("7", "tools/call", `{"name":"add","requestState":"AAAA",`+statelessMeta("")+`}`), headers: statelessHeaders("tools/call", "add"), status: 400, code: -32602, id: "7"},
	} {
		t.Run(row.name, func(t *testing.T) {
			method := row.method
			if method == "" {
				method = "POST"
			}
			a := c.send(method, "/mcp", row.body, row.headers...)
			if a.status != row.status {
				t.Fatalf("got %d %s, want %d", a.status, a.body, row.status)
			}
			if row.status == 202 || row.status == 405 {
				return
			}
			m := a.message(t)
			code := 0
			if m.Error != nil {
				code = m.Error.Code
			}
			if code != row.code || m.ID.String() != row.id {
				t.Errorf("got code %d, id %s: %s", code, m.ID, a.body)
			}
			if code == mcp.CodeUnsupportedVersion && !strings.Contains(string(m.Error.Data), `"2026-07-28"`) {
				t.Errorf("the supported versions are not listed: %s", m.Error.Data)
			}
		})
	}
}

// askingBackend is a server of the session era that sends its client requests during a call.
func askingBackend(t *testing.T, questions ...*mcp.Message) (*fakeBackend, chan string) {
	t.Helper()
	b, results := newFakeBackend(), make(chan string, 100)
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method != mcp.MethodToolsCall {
			return echo(x), nil
		}
		var all []string
		for _, q := range questions {
			a, err := x.Peer.Ask(ctx, q)
			if err != nil {
				results <- err.Error()
				return nil, err
			}
			results <- string(a.Result)
			all = append(all, string(a.Result))
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"answers":[`+strings.Join(all, ",")+`]}`)), nil
	}
	return b, results
}

type inputRequired struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState string
}

func (a *answer) inputRequired(t *testing.T) inputRequired {
	t.Helper()
	m := a.message(t)
	var r inputRequired
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.ResultType != "input_required" {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	return r
}

// again is the body of the call that goes on.
func again(id, name, state, responses string) string {
	return req(id, "tools/call", fmt.Sprintf(`{"arguments":{"a":1, "b":[2]},"name":%q,"requestState":%q,"inputResponses":%s,%s}`, name, state, responses, statelessMeta(`"elicitation":{},"roots":{}`)))
}

var (
	elicit = &mcp.Message{ID: mcp.IntID(1), Method: "elicitation/create", Params: json.RawMessage(`{"message":"who?"}`)}
	roots  = &mcp.Message{ID: mcp.StringID("r"), Method: "roots/list"}
)

func TestStateless_InputRequired(t *testing.T) {
	b, results := askingBackend(t, elicit, roots)
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	first := req("1", "tools/call", `{"name":"add","arguments":{"b":[2],"a":1},`+statelessMeta(`"elicitation":{},"roots":{}`)+`}`)
	asked := c.post(first, statelessHeaders("tools/call", "add")...).inputRequired(t)
	if asked.InputRequests["1"].Method != "elicitation/create" || string(asked.InputRequests["1"].Params) != `{"message":"who?"}` || len(asked.InputRequests) != 1 {
		t.Fatalf("asked %+v", asked)
	}
	post := func(body string) *answer { return c.post(body, statelessHeaders("tools/call", "add")...) }
	// Without the answer it is asked again, with another state.
	second := post(again("2", "add", asked.RequestState, `{"x":{}}`)).inputRequired(t)
	if second.RequestState == asked.RequestState || len(second.InputRequests) != 1 {
		t.Fatalf("asked again %+v", second)
	}
	third := post(again("3", "add", second.RequestState, `{"1":{"action":"accept"}}`)).inputRequired(t)
	if got := receive(t, "the answer", results); got != `{"action":"accept"}` {
		t.Errorf("the server received %s", got)
	}
	if third.InputRequests["2"].Method != "roots/list" || string(third.InputRequests["2"].Params) != "{}" {
		t.Fatalf("asked %+v", third)
	}
	for name, row := range map[string]struct {
		body    string
		headers []string
	}{
		"used already":           {again("4", "add", second.RequestState, `{"2":{"roots":[]}}`), nil},
		"altered":                {again("4", "add", altered(third.RequestState), `{"2":{"roots":[]}}`), nil},
		"of another tool's call": {again("4", "sub", third.RequestState, `{"2":{"roots":[]}}`), statelessHeaders("tools/call", "sub")},
		"of other arguments":     {strings.Replace(again("4", "add", third.RequestState, `{"2":{"roots":[]}}`), `"a":1`, `"a":2`, 1), nil},
		"an answer of no object": {again("4", "add", "", `{"2":[]}`), nil},
	} {
		if row.headers == nil {
			row.headers = statelessHeaders("tools/call", "add")
		}
		if a := c.post(row.body, row.headers...); a.status != 400 || a.code(t) != mcp.CodeInvalidParams {
			t.Errorf("%s: got %d %s", name, a.status, a.body)
		}
	}
	last := post(again("5", "add", third.RequestState, `{"2":{"roots":[]}}`))
	if diff := cmp.Diff(`{"jsonrpc":"2.0","id":5,"result":{"answers":[{"action":"accept"},{"roots":[]}]}}`, last.body); diff != "" {
		t.Error(diff)
	}
}

// altered is text with another letter in its midst, which differs in every case.
func altered(text string) string {
	letter := "A"
	if text[20] == 'A' {
		letter = "B"
	}
	return text[:20] + letter + text[21:]
}

func TestStateless_AskNotDeclared(t *testing.T) {
	b, results := askingBackend(t, elicit)
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	a := c.post(req("1", "tools/call", `{"name":"add",`+statelessMeta(`"roots":{}`)+`}`), statelessHeaders("tools/call", "add")...)
	if m := a.message(t); m.Error == nil || !strings.Contains(m.Error.Message, "did not declare") {
		t.Errorf("got %s", a.body)
	}
	if got := receive(t, "the refusal", results); !strings.Contains(got, "elicitation/create") {
		t.Errorf("the server received %s", got)
	}
}

func TestStateless_ProgressToken(t *testing.T) {
	for _, row := range []struct{ name, token, want string }{
		{"with a token of its own", `"progressToken":"second",`, `{"progressToken":"second","progress":3}`},
		{"with none", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newFakeBackend()
			parked, noted := make(chan struct{}), make(chan struct{})
			b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
				progress := func(n string) {
					x.Peer.Notify(note(mcp.NotificationProgress, `{"progressToken":1,"progress":`+n+`}`))
				}
				progress("1")
				go func() { // while the call waits there is no request that it could be of
					<-parked
					progress("2")
					close(noted)
				}()
				if _, err := x.Peer.Ask(ctx, elicit); err != nil {
					return nil, err
				}
				progress("3")
				return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
			}
			_, srv := serve(t, b, nil, nil)
			c := newWire(t, srv)
			post := func(body, token string) (progress string, result *mcp.Message) {
				body = strings.Replace(body, `"_meta":{`, `"_meta":{`+token, 1)
				e := c.stream("POST", "/mcp", body, statelessHeaders("tools/call", "add", "Accept: text/event-stream")...)
				for result = e.message(); result.Method != ""; result = e.message() {
					progress += string(result.Params)
				}
				return progress, result
			}
			progress, asked := post(callThatAsks("1"), `"progressToken":1,`)
			if progress != `{"progressToken":1,"progress":1}` {
				t.Errorf("the first request received %s", progress)
			}
			state, _, _ := mcp.LookupString(asked.Result, "requestState")
			close(parked)
			receive(t, "progress without a token", noted)
			if progress, result := post(again("2", "add", state, `{"1":{"action":"accept"}}`), row.token); progress != row.want || result.Error != nil {
				t.Errorf("the second request received %s, and %s", progress, result.Encode())
			}
		})
	}
}

func TestStateless_ServerState(t *testing.T) {
	b := newFakeBackend()
	states := make(chan string, 10)
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		state, found, err := mcp.LookupString(x.Request.Params, "requestState")
		if err != nil {
			return nil, err
		}
		if found {
			states <- state
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"complete"}`)), nil
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}},"requestState":"it's \"mine\""}`)), nil
	}
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	asked := c.post(req("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+statelessMeta(`"roots":{}`)+`}`), statelessHeaders("tools/call", "add")...).inputRequired(t)
	if strings.Contains(asked.RequestState, "mine") || asked.InputRequests["q"].Method != "roots/list" {
		t.Fatalf("asked %+v", asked)
	}
	body := again("2", "add", asked.RequestState, `{"q":{"roots":[]}}`)
	// The third and fourth are the same to readers that take the last of two.
	for _, other := range []string{`"a":3`, `"a":"\ud800"`, `"a":3,"a":1`, `"a":1,"a":1`} {
		if a := c.post(strings.Replace(body, `"a":1`, other, 1), statelessHeaders("tools/call", "add")...); a.status != 400 {
			t.Errorf("another request goes on with it: %s %s", other, a.body)
		}
	}
	if a := c.post(body, statelessHeaders("tools/call", "add")...); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if got := receive(t, "the state", states); got != `it's "mine"` {
		t.Errorf("the server got %s", got)
	}
}

func TestStateless_ServerStateEscaped(t *testing.T) {
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"resultType":"input\u005frequired","inputRequests":{},"request\u0053tate":"mine"}`)), nil
	}
	_, srv := serve(t, b, nil, nil)
	asked := newWire(t, srv).post(req("1", "tools/call", `{"name":"add",`+statelessMeta("")+`}`), statelessHeaders("tools/call", "add")...).inputRequired(t)
	if asked.RequestState == "" || strings.Contains(asked.RequestState, "mine") {
		t.Errorf("got %+v", asked)
	}
}

func TestStateless_CloseCancels(t *testing.T) {
	b := newFakeBackend()
	do, entered, _, cancelled := held()
	b.do = do
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r := c.request(ctx, "POST", "/mcp", req("1", "hold", `{`+statelessMeta("")+`}`), statelessHeaders("hold", "")...)
		if resp, err := c.client.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	receive(t, "the request", entered)
	cancel()
	receive(t, "its cancellation", cancelled)
}

func TestStateless_ParkedCallTimesOut(t *testing.T) {
	b, results := askingBackend(t, elicit)
	g, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Parked = 20 * time.Millisecond })
	c := newWire(t, srv)
	asked := c.post(req("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+statelessMeta(`"elicitation":{}`)+`}`), statelessHeaders("tools/call", "add")...).inputRequired(t)
	if got := receive(t, "the end", results); !strings.Contains(got, "did not send the answers") {
		t.Errorf("the server received %s", got)
	}
	eventually(t, "nothing is kept of it", func() bool { return g.stateless.Parked() == 0 })
	if a := c.post(again("2", "add", asked.RequestState, `{"1":{"action":"accept"}}`), statelessHeaders("tools/call", "add")...); a.status != 400 || !strings.Contains(a.body, "no longer waits") {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

func TestStateless_SubscriptionKeepAlive(t *testing.T) {
	b := newFakeBackend()
	b.do = func(ctx context.Context, _ *fakeConn, _ *exchange.Exchange) (*mcp.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Quiet, p.KeepAlive = time.Millisecond, time.Millisecond })
	c := newWire(t, srv)
	c.client.Timeout = patience
	e := c.stream("POST", "/mcp", req("1", "subscriptions/listen", `{"notifications":{},`+statelessMeta("")+`}`), statelessHeaders("subscriptions/listen", "")...)
	if line := e.next(); !strings.HasPrefix(line, ":") {
		t.Errorf("got %s", line)
	}
	e.close()
}

func TestStateless_SubscriptionEndsOnClose(t *testing.T) {
	b := newFakeBackend()
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		x.Peer.Notify(note("notifications/subscriptions/acknowledged", `{}`))
		<-ctx.Done()
		return nil, ctx.Err()
	}
	g, srv := serve(t, b, nil, nil)
	e := newWire(t, srv).stream("POST", "/mcp", req(`"s"`, "subscriptions/listen", `{"notifications":{},`+statelessMeta("")+`}`), statelessHeaders("subscriptions/listen", "")...)
	if m := e.message(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("got %s", m.Encode())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
	want := `{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`
	if got := e.next(); got != want {
		t.Errorf("got %s", got)
	}
	if m := e.message(); m != nil {
		t.Errorf("something follows: %s", m.Encode())
	}
}

// callThatAsks is the body of a call during which the server sends a request.
func callThatAsks(id string) string {
	return req(id, "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+statelessMeta(`"elicitation":{},"roots":{}`)+`}`)
}
