package translate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// oracle is a server of the stateless era whose responses a test sets.
type oracle struct {
	do func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error)

	mu    sync.Mutex
	asked []*exchange.Exchange
}

func (o *oracle) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	o.mu.Lock()
	o.asked = append(o.asked, x)
	o.mu.Unlock()
	return o.do(ctx, x)
}

func (o *oracle) Close() error { return nil }

// of returns the requests with the method so far.
func (o *oracle) of(method string) (out []*exchange.Exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.asked {
		if x.Request.Method == method {
			out = append(out, x)
		}
	}
	return out
}

// answering returns a server with those results by method; it has no other methods.
func answering(results map[string]string) *oracle {
	return &oracle{do: func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if r, ok := results[x.Request.Method]; ok {
			return mcp.NewResult(x.Request.ID, json.RawMessage(r)), nil
		}
		return mcp.NewError(x.Request.ID, mcp.CodeMethodNotFound, "no "+x.Request.Method), nil
	}}
}

// neverRefused is of a server that always supports the stateless era.
func neverRefused(context.Context) bool { return false }

func sessionAt(t *testing.T, m wire.Stateless, info string, client *exchange.Client, session exchange.Peer) *downConn {
	t.Helper()
	clients := NewDown(m, true, neverRefused, func() {}, backendtest.TestLog())
	t.Cleanup(clients.Close)
	return enterSession(t, clients, info, client, session)
}

func enterSession(t *testing.T, clients *Down, info string, client *exchange.Client, session exchange.Peer) *downConn {
	t.Helper()
	conn, err := clients.Open(context.Background(), json.RawMessage(info), client, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*downConn)
}

func compact(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "not JSON: " + string(raw)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func TestDown_InitializeResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, info, version, want string }{
		{"whole", backendtest.Everything, "2025-06-18", `{"capabilities":{"logging":{},"prompts":{},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},"instructions":"be kind","protocolVersion":"2025-06-18","serverInfo":{"name":"modern","version":"1"}}`},
		{"bare", `{"capabilities":{}}`, "2024-11-05", `{"capabilities":{},"protocolVersion":"2024-11-05","serverInfo":{"name":"toolhaven","version":"1"}}`},
		{"a version that is unknown", `{}`, "2020-01-01", `{"capabilities":{},"protocolVersion":"2025-11-25","serverInfo":{"name":"toolhaven","version":"1"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := backendtest.FullClient()
			client.Version = mcp.Version(tt.version)
			c := sessionAt(t, answering(nil), tt.info, client, nil)
			if diff := cmp.Diff(tt.want, compact(c.InitializeResult())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDown_AnswersWhatTheServerDoesNotHave(t *testing.T) {
	t.Parallel()
	o := answering(nil)
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	bare := sessionAt(t, o, `{"capabilities":{}}`, backendtest.FullClient(), nil)
	for _, tt := range []struct {
		conn           *downConn
		method, params string
		code           int
	}{
		{c, "ping", ``, 0},
		{c, "logging/setLevel", `{"level":"warning"}`, 0},
		{c, "logging/setLevel", `{"level":"loud"}`, mcp.CodeInvalidParams},
		{c, "logging/setLevel", `{}`, mcp.CodeInvalidParams},
		{bare, "logging/setLevel", `{"level":"warning"}`, mcp.CodeMethodNotFound},
		{bare, "resources/subscribe", `{"uri":"a:b"}`, mcp.CodeMethodNotFound},
		{c, "resources/subscribe", `{}`, mcp.CodeInvalidParams},
		{c, "resources/subscribe", `{"uri":"` + strings.Repeat("x", maxURI+1) + `"}`, mcp.CodeInvalidParams},
		{c, "resources/unsubscribe", `{"uri":"a:b"}`, 0},
		{c, "server/discover", `{}`, mcp.CodeMethodNotFound},
		{c, "subscriptions/listen", `{"notifications":{}}`, mcp.CodeMethodNotFound},
	} {
		m, err := tt.conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.StringID("q"), tt.method, tt.params), nil))
		if got := backendtest.CodeOf(err); got != tt.code || err == nil && (m.ID != mcp.StringID("q") || string(m.Result) != `{}`) {
			t.Errorf("%s %.60s: %v, %v", tt.method, tt.params, m, err)
		}
	}
	if err := c.Notify(backendtest.TestContext(t), &mcp.Message{Method: mcp.NotificationRootsChanged}); err != nil {
		t.Error(err)
	}
	if len(o.asked) != 0 {
		t.Errorf("the server was asked %s", o.asked[0].Request.Encode())
	}
}

func TestDown_DescribesTheClient(t *testing.T) {
	t.Parallel()
	o := answering(map[string]string{mcp.MethodPromptsList: `{"resultType":"complete","ttlMs":5,"prompts":[]}`})
	client := backendtest.FullClient()
	client.Capabilities = json.RawMessage(`{"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}`)
	c := sessionAt(t, o, backendtest.Everything, client, nil)
	list := func() string {
		t.Helper()
		m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.StringID("7"), mcp.MethodPromptsList, `{"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"debug"}}`), nil))
		if err != nil || m.ID != mcp.StringID("7") || string(m.Result) != `{"resultType":"complete","ttlMs":5,"prompts":[]}` {
			t.Fatal(m, err)
		}
		all := o.of(mcp.MethodPromptsList)
		return compact(all[len(all)-1].Request.Params)
	}
	want := `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"a/b":{}},"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"the client","version":"3"},%s"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1}}`
	if diff := cmp.Diff(fmt.Sprintf(want, ``), list()); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodSetLevel, `{"level":"error"}`), nil)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprintf(want, `"io.modelcontextprotocol/logLevel":"error",`), list()); diff != "" {
		t.Error(diff)
	}
}

func TestDown_SendsInputRequestsToTheClient(t *testing.T) {
	t.Parallel()
	rounds := []string{
		`{"resultType":"input_required","requestState":"s\u0031","inputRequests":{
			"a":{"method":"elicitation/create","params":{"message":"who?"}},"b":{"method":"roots/list"},
			"c":{"method":"sampling/createMessage","params":{"maxTokens":1}}}}`,
		`{"resultType":"input_required","requestState":"s2"}`,
		`{"resultType":"input_required","inputRequests":{"d":{"method":"roots/list"}}}`,
		backendtest.Done,
	}
	var n int
	var ids []mcp.ID
	var sent []string
	o := &oracle{do: func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		x.Peer.Notify(&mcp.Message{Method: mcp.NotificationProgress})
		params, _ := mcp.Without(x.Request.Params, func(k string) bool { return k == "_meta" })
		ids, sent = append(ids, x.Request.ID), append(sent, compact(params))
		n++
		return mcp.NewResult(x.Request.ID, json.RawMessage(rounds[n-1])), nil
	}}
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	p := backendtest.Answering(map[string]string{mcp.MethodElicitation: `{"action":"decline"}`, mcp.MethodRootsList: `{"roots":[]}`, mcp.MethodSampling: `{"role":"assistant"}`})
	m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(3), mcp.MethodPromptsGet, `{"name":"x","inputResponses":{"forged":{}},"requestState":"forged"}`), p))
	if got := backendtest.Text(m, err); got != "done" || m.ID != mcp.IntID(3) {
		t.Fatal(got)
	}
	if diff := cmp.Diff([]string{
		`{"name":"x"}`,
		`{"inputResponses":{"a":{"action":"decline"},"b":{"roots":[]},"c":{"role":"assistant"}},"name":"x","requestState":"s1"}`,
		`{"name":"x","requestState":"s2"}`,
		`{"inputResponses":{"d":{"roots":[]}},"name":"x"}`,
	}, sent); diff != "" {
		t.Error(diff)
	}
	slices.SortFunc(ids, func(a, b mcp.ID) int { return strings.Compare(a.String(), b.String()) })
	if len(slices.Compact(ids)) != 4 || len(p.Notes) != 4 {
		t.Errorf("ids %v, %d notifications", ids, len(p.Notes))
	}
}

func TestDown_InputFails(t *testing.T) {
	t.Parallel()
	elicit := func(params string) string {
		return `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":` + params + `}}}`
	}
	var many []string
	for i := range wire.MaxServerRequests + 1 {
		many = append(many, fmt.Sprintf(`"%d":{"method":"roots/list"}`, i))
	}
	for _, tt := range []struct{ name, capabilities, method, result, want string }{
		{"not declared", `{}`, "tools/call", elicit(`{}`), "did not declare"},
		{"only by URL", `{"elicitation":{"url":{}}}`, "tools/call", elicit(`{}`), "did not declare"},
		{"only by form", `{"elicitation":{}}`, "tools/call", elicit(`{"mode":"url"}`), "did not declare"},
		{"refused", `{"elicitation":{}}`, "tools/call", elicit(`{}`), "this peer answers nothing"},
		{"no such question", `{}`, "tools/call", `{"resultType":"input_required","inputRequests":{"k":{"method":"ping"}}}`, "no client is asked for"},
		{"too many", `{"roots":{}}`, "tools/call", `{"resultType":"input_required","inputRequests":{` + strings.Join(many, ",") + `}}`, "more than 64"},
		{"nothing", `{}`, "tools/call", `{"resultType":"input_required"}`, "neither"},
		{"a method that must not ask", `{"roots":{}}`, "tools/list", `{"resultType":"input_required","requestState":"x"}`, "does not have there"},
		{"an unknown type", `{}`, "tools/call", `{"resultType":"task","taskId":"1"}`, `"task"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := backendtest.FullClient()
			client.Capabilities = json.RawMessage(tt.capabilities)
			c := sessionAt(t, answering(map[string]string{tt.method: tt.result}), backendtest.Everything, client, nil)
			m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), tt.method, `{"name":"x"}`), backendtest.NewPeer()))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Error(m, err)
			}
		})
	}
}

func TestDown_RoundsAreBounded(t *testing.T) {
	t.Parallel()
	o := answering(map[string]string{mcp.MethodToolsCall: `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}}`})
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	p := backendtest.Answering(map[string]string{mcp.MethodRootsList: `{"roots":[]}`})
	_, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), p))
	if err == nil || len(o.of(mcp.MethodToolsCall)) != maxRounds {
		t.Error(err, len(o.of(mcp.MethodToolsCall)))
	}
	shed := answering(map[string]string{mcp.MethodToolsCall: `{"resultType":"input_required","requestState":"later"}`})
	c = sessionAt(t, shed, backendtest.Everything, backendtest.FullClient(), nil)
	_, err = c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), p))
	if err == nil || len(shed.of(mcp.MethodToolsCall)) != maxSheds+1 {
		t.Error(err, len(shed.of(mcp.MethodToolsCall)))
	}
}

func TestDown_URLElicitation(t *testing.T) {
	t.Parallel()
	results := []string{`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","url":"https://x"}}}}`, backendtest.Done}
	o := &oracle{}
	o.do = func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method != mcp.MethodToolsCall {
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{"tools":[]}`)), nil
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(results[len(o.of(mcp.MethodToolsCall))-1])), nil
	}
	client := backendtest.FullClient()
	client.Capabilities = json.RawMessage(`{"elicitation":{"url":{}}}`)
	c := sessionAt(t, o, backendtest.Everything, client, nil)
	p := backendtest.NewPeer()
	p.Answer = func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
		if id, found, err := mcp.LookupString(q.Params, "elicitationId"); err != nil || !found || len(id) < 20 {
			t.Error(id, found, err)
		}
		return mcp.NewResult(q.ID, json.RawMessage(`{"action":"accept"}`)), nil
	}
	if got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), p))); got != "done" {
		t.Error(got)
	}
}

func TestDown_CancelCancelsInputRequests(t *testing.T) {
	t.Parallel()
	why := errors.New("the reason")
	for name, end := range map[string]func(*downConn, context.CancelCauseFunc){
		"cancelled": func(_ *downConn, cancel context.CancelCauseFunc) { cancel(why) },
		"closed":    func(c *downConn, _ context.CancelCauseFunc) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			o := answering(map[string]string{mcp.MethodToolsCall: `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"},"l":{"method":"elicitation/create","params":{}}}}`})
			c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
			ctx, cancel := context.WithCancelCause(backendtest.TestContext(t))
			defer cancel(nil)
			p, asked, withdrawn := backendtest.NewPeer(), make(chan struct{}, 2), make(chan struct{}, 2)
			p.Answer = func(ctx context.Context, _ *mcp.Message) (*mcp.Message, error) {
				asked <- struct{}{}
				<-ctx.Done()
				withdrawn <- struct{}{}
				return nil, ctx.Err()
			}
			ended := make(chan error, 1)
			go func() {
				_, err := c.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "x", `{}`), p))
				ended <- err
			}()
			<-asked
			<-asked
			end(c, cancel)
			if err := <-ended; !errors.Is(err, why) && !errors.Is(err, errSessionClosed) {
				t.Error(err)
			}
			<-withdrawn
			<-withdrawn
			if name == "closed" {
				<-c.Done()
			}
		})
	}
}

func TestDown_ClosedSession(t *testing.T) {
	t.Parallel()
	o := answering(map[string]string{mcp.MethodPromptsList: `{"resultType":"complete","prompts":[]}`})
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	_ = c.Close()
	for range 100 {
		for _, method := range []string{mcp.MethodPromptsList, mcp.MethodPing} {
			if m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), method, `{}`), nil)); !errors.Is(err, errSessionClosed) {
				t.Fatalf("%s: %v, %v", method, m, err)
			}
		}
	}
	if asked := len(o.of(mcp.MethodPromptsList)); asked != 0 {
		t.Errorf("the server was asked %d times", asked)
	}
}

func TestDown_MirrorsArguments(t *testing.T) {
	t.Parallel()
	schema := func(header string) string {
		return `{"name":"where","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"},
			"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":["boolean","null"],"x-mcp-header":"B"}}}}}}`
	}
	header := "Region"
	o := &oracle{}
	o.do = func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		switch x.Request.Method {
		case mcp.MethodToolsList:
			if cursor, _, _ := mcp.LookupString(x.Request.Params, "cursor"); cursor == "" {
				return mcp.NewResult(x.Request.ID, json.RawMessage(`{"tools":[{"name":"bad","inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}}],"nextCursor":"2"}`)), nil
			}
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{"tools":[`+schema(header)+`]}`)), nil
		}
		if x.Headers["Mcp-Param-"+header] == nil {
			return mcp.NewError(x.Request.ID, mcp.CodeHeaderMismatch, "where?"), nil
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(backendtest.Done)), nil
	}
	c := sessionAt(t, o, backendtest.Everything, backendtest.FullClient(), nil)
	arguments := `{"region":"日本","deep":{"n":4.0e1,"b":true}}`
	for range 2 {
		if got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "where", arguments), nil))); got != "done" {
			t.Fatal(got)
		}
	}
	if got := len(o.of(mcp.MethodToolsList)); got != 2 { // pages
		t.Errorf("tools were listed %d times", got)
	}
	want := map[string][]string{"Mcp-Param-Region": {"=?base64?5pel5pys?="}, "Mcp-Param-N": {"40"}, "Mcp-Param-B": {"true"}}
	if diff := cmp.Diff(want, map[string][]string(o.of(mcp.MethodToolsCall)[0].Headers)); diff != "" {
		t.Error(diff)
	}
	header = "Zone" // the tool changes
	if got := backendtest.Text(c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(2), "where", arguments), nil))); got != "done" {
		t.Error(got)
	}
	header = "Gone" // for ever wrong: one retry
	before := len(o.of(mcp.MethodToolsCall))
	m, err := c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(3), "where", `{}`), nil))
	if err != nil || m.Error == nil || m.ID != mcp.IntID(3) || len(o.of(mcp.MethodToolsCall)) != before+2 {
		t.Error(m, err)
	}
	// Tools that are on no list are not looked for each time.
	lists := len(o.of(mcp.MethodToolsList))
	_, _ = c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(4), "nowhere", `{}`), nil))
	if got := len(o.of(mcp.MethodToolsList)) - lists; got != 2 { // for the mismatch alone
		t.Errorf("%d more lists", got)
	}
	// What passes through loses what a client must not see.
	m, err = c.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(5), mcp.MethodToolsList, `{}`), nil))
	if err != nil || string(m.Result) != `{"tools":[],"nextCursor":"2"}` {
		t.Error(m, err)
	}
}
