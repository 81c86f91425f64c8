package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// server answers list requests with the results by method, page after page, and every other
// request with {}. It records the methods that it receives.
type server struct {
	results  map[string][]string
	received []string
	requests []*mcp.Message
}

func (s *server) handle(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	s.received = append(s.received, x.Request.Method)
	s.requests = append(s.requests, x.Request)
	pages := s.results[x.Request.Method]
	if len(pages) == 0 {
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
	}
	page := 0
	if cursor, found, _ := mcp.LookupString(x.Request.Params, "cursor"); found {
		fmt.Sscan(cursor, &page)
	}
	return mcp.NewResult(x.Request.ID, json.RawMessage(pages[page])), nil
}

func stage(t testing.TB, s *server, policies ...string) exchange.Handler {
	t.Helper()
	p, err := New(Config{Policies: policies}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.Stage(s.handle)
}

func request(method, params string) *exchange.Exchange {
	return &exchange.Exchange{
		Client:  &exchange.Client{},
		Caller:  &exchange.Caller{Subject: "ann"},
		Request: &mcp.Message{ID: mcp.IntID(1), Method: method, Params: json.RawMessage(params)},
	}
}

func TestStage_Requests(t *testing.T) {
	policies := []string{
		`permit(principal, action == Action::"call_tool", resource == Tool::"add");`,
		`permit(principal, action == Action::"get_prompt", resource == Prompt::"greet");`,
		`permit(principal, action == Action::"read_resource", resource) when { resource.name like "file:///open/*" };`,
	}
	for _, row := range []struct {
		method, params string
		want           string // "" is permitted, else a part of the error
	}{
		{mcp.MethodToolsCall, `{"name":"add"}`, ""},
		{mcp.MethodToolsCall, `{"name":"sub"}`, "not authorized: call tool sub"},
		{mcp.MethodToolsCall, `{"name":"Add"}`, "not authorized"},
		{mcp.MethodToolsCall, `{"name":"add","Name":"sub"}`, "another spelling"},
		{mcp.MethodToolsCall, `{"name":"sub","name":"add"}`, "twice"},
		{mcp.MethodToolsCall, `{}`, "params.name is missing"},
		{mcp.MethodToolsCall, ``, "missing"},
		{mcp.MethodPromptsGet, `{"name":"greet"}`, ""},
		{mcp.MethodPromptsGet, `{"name":"add"}`, "not authorized"},
		{mcp.MethodResourcesRead, `{"uri":"file:///open/a"}`, ""},
		{mcp.MethodResourcesRead, `{"uri":"file:///closed/a"}`, "not authorized: read resource file:///closed/a"},
		{mcp.MethodResourcesSubscribe, `{"uri":"file:///closed/a"}`, "not authorized"},
		{mcp.MethodResourcesUnsubscribe, `{"uri":"file:///closed/a"}`, ""},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"greet"}}`, ""},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"other"}}`, "not authorized"},
		{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"file:///closed/{x}"}}`, "not authorized"},
		{mcp.MethodComplete, `{"ref":{"type":"ref/tool","name":"add"}}`, "params.ref.type"},
		{mcp.MethodSubscriptionsListen, `{"notifications":{"toolsListChanged":true}}`, ""},
		{mcp.MethodSubscriptionsListen, `{"notifications":{"resourceSubscriptions":["file:///open/a"]}}`, ""},
		{mcp.MethodSubscriptionsListen, `{"notifications":{"resourceSubscriptions":["file:///open/a","file:///closed/a"]}}`, "not authorized"},
		{mcp.MethodSubscriptionsListen, `{"notifications":{"resourceSubscriptions":7}}`, "must be an array"},
		{mcp.MethodInitialize, `{}`, ""},
		{mcp.MethodPing, `{}`, ""},
		{mcp.MethodDiscover, `{}`, ""},
		{mcp.MethodSetLevel, `{"level":"info"}`, ""},
		{"tasks/get", `{"taskId":"1"}`, ""},
		{"vendor/everything", `{}`, "method not found: vendor/everything"},
	} {
		t.Run(row.method+" "+row.params, func(t *testing.T) {
			s := &server{}
			_, err := stage(t, s, policies...)(t.Context(), request(row.method, row.params))
			if row.want == "" {
				if err != nil || len(s.received) != 1 {
					t.Errorf("%v, the server received %v", err, s.received)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) || len(s.received) > 0 {
				t.Errorf("%v, the server received %v; want %s", err, s.received, row.want)
			}
			var rpc *mcp.Error
			if !errors.As(err, &rpc) || (rpc.Status == http.StatusForbidden) != strings.Contains(row.want, "not authorized") {
				t.Errorf("the error is %#v", err)
			}
		})
	}
}

func TestStage_Lists(t *testing.T) {
	s := &server{results: map[string][]string{
		mcp.MethodToolsList:             {`{"tools":[{"name":"add","x":1},{"name":"sub"}],"nextCursor":"1"}`, `{"tools":[{"name":"sub"}]}`},
		mcp.MethodPromptsList:           {`{"prompts":[{"name":"greet"},{"name":"add"}]}`},
		mcp.MethodResourcesList:         {`{"resources":[{"uri":"a:1","name":"add"},{"uri":"b:1","name":"sub"}]}`},
		mcp.MethodResourceTemplatesList: {`{"resourceTemplates":[{"uriTemplate":"a:{x}","name":"y"},{"uriTemplate":"b:{x}","name":"z"}]}`},
	}}
	do := stage(t, s, `permit(principal, action, resource == Tool::"add");`, `permit(principal, action, resource == Prompt::"greet");`, `permit(principal, action == Action::"read_resource", resource) when { resource.name like "a:*" };`)
	for _, row := range [][3]string{
		{mcp.MethodToolsList, `{}`, `{"tools":[{"name":"add","x":1}],"nextCursor":"1"}`},
		{mcp.MethodToolsList, `{"cursor":"1"}`, `{"tools":[]}`},
		{mcp.MethodPromptsList, `{}`, `{"prompts":[{"name":"greet"}]}`},
		{mcp.MethodResourcesList, `{}`, `{"resources":[{"uri":"a:1","name":"add"}]}`},
		{mcp.MethodResourceTemplatesList, `{}`, `{"resourceTemplates":[{"uriTemplate":"a:{x}","name":"y"}]}`},
	} {
		m, err := do(t.Context(), request(row[0], row[1]))
		if err != nil || string(m.Result) != row[2] {
			t.Errorf("%s: %v, %v; want %s", row[0], m, err, row[2])
		}
	}
	for _, result := range []string{`{}`, `{"tools":{}}`, `{"tools":[{"name":1}]}`, `{"tools":[{"name":"add","Name":"sub"}]}`, `{"tools":[],"tools":[]}`} {
		s.results[mcp.MethodToolsList] = []string{result}
		if m, err := do(t.Context(), request(mcp.MethodToolsList, `{}`)); err == nil {
			t.Errorf("%s is passed on as %s", result, m.Result)
		}
	}
}

// The annotations of a tool are known to the decision on a call also when its caller has not
// listed the tools.
func TestStage_AnnotationsBeforeAnyList(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"info","progressToken":1}`
	s := &server{results: map[string][]string{mcp.MethodToolsList: {
		`{"tools":[{"name":"write","annotations":{"destructiveHint":true}}],"nextCursor":"1"}`,
		`{"tools":[{"name":"read","annotations":{"readOnlyHint":true,"destructiveHint":false}},{"name":"plain"}]}`,
	}}}
	do := stage(t, s, `permit(principal, action, resource);`, `forbid(principal, action, resource) when { resource.destructiveHint };`)
	for name, permitted := range map[string]bool{"read": true, "write": false, "plain": false, "unknown": false} {
		_, err := do(t.Context(), request(mcp.MethodToolsCall, `{"name":"`+name+`",`+meta+`}`))
		if (err == nil) != permitted {
			t.Errorf("%s: %v", name, err)
		}
	}
	lists := 0
	for _, m := range s.requests {
		if m.Method == mcp.MethodToolsList {
			lists++
			if got, _, _ := mcp.Lookup(m.Params, "_meta"); string(got) != `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}` {
				t.Errorf("the list has the _meta %s", got)
			}
		}
	}
	if lists != 2 { // the two pages, once
		t.Errorf("%d lists were requested", lists)
	}
}

func TestStage_AnnotationsUnavailable(t *testing.T) {
	s := &server{results: map[string][]string{mcp.MethodToolsList: {`{}`}}}
	do := stage(t, s, `permit(principal, action, resource) when { resource.readOnlyHint };`)
	if _, err := do(t.Context(), request(mcp.MethodToolsCall, `{"name":"a"}`)); err == nil {
		t.Error("a call was permitted without the list")
	}
}

// The bound for a list of 1,000 tools is 2 ms.
func BenchmarkList_1000Tools(b *testing.B) {
	var tools []string
	for i := range 1000 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool-%d","description":"Reads the %dth entry of the archive and returns it as text.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`, i, i))
	}
	s := &server{results: map[string][]string{mcp.MethodToolsList: {`{"tools":[` + strings.Join(tools, ",") + `]}`}}}
	for name, policies := range map[string][]string{
		"names": {`permit(principal, action == Action::"call_tool", resource) when { resource.name like "tool-1*" };`, `forbid(principal, action, resource == Tool::"tool-17");`},
		"hints": {`permit(principal, action, resource) when { resource.readOnlyHint && principal.claim_team == "a" };`, `forbid(principal, action, resource == Tool::"tool-17");`},
	} {
		b.Run(name, func(b *testing.B) {
			p, err := New(Config{Policies: policies}, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			do := p.Stage(s.handle)
			x := request(mcp.MethodToolsList, `{}`)
			x.Caller.Claims = map[string]any{"team": "a"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := do(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzNew(f *testing.F) {
	for _, text := range []string{
		`permit(principal, action, resource);`, `@id("a") forbid(principal in THVGroup::"x", action == Action::"call_tool", resource is Tool) when { resource has arg_a && ip("1.1.1.1").isLoopback() } unless { -1 < 2 };`,
		`permit(principal, action, resource) when { [1,{a:"b"}].contains(context.claim_x) };`,
	} {
		f.Add(text, `[{"uid":{"type":"Tool","id":"a"},"parents":[],"attrs":{}}]`)
	}
	f.Fuzz(func(t *testing.T, text, entities string) {
		p, err := New(Config{Policies: []string{text}, Entities: entities}, nil)
		if err != nil {
			return
		}
		if _, err := p.Decide(caller(`{"x":[1,"b"]}`), Request{Action: CallTool, Name: "a", Arguments: json.RawMessage(`{"a":1.5}`)}); err != nil {
			t.Error(err)
		}
	})
}

// Calls that come while the annotations are being listed wait for them: they are not denied
// by the defaults.
func TestStage_ConcurrentCallsBeforeAnyList(t *testing.T) {
	listing, proceed := make(chan struct{}), make(chan struct{})
	var lists atomic.Int64
	p, err := New(Config{Policies: []string{`permit(principal, action, resource) when { resource.readOnlyHint };`}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	do := p.Stage(func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method != mcp.MethodToolsList {
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
		}
		if lists.Add(1) == 1 {
			close(listing)
		}
		<-proceed
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"tools":[{"name":"a","annotations":{"readOnlyHint":true}},{"name":"b","annotations":{"readOnlyHint":true}}]}`)), nil
	})
	outcomes := make(chan error, 3)
	call := func(name string) {
		_, err := do(t.Context(), request(mcp.MethodToolsCall, `{"name":"`+name+`"}`))
		outcomes <- err
	}
	go call("a")
	<-listing
	go call("b")
	go call("a")
	select {
	case err := <-outcomes:
		t.Fatalf("a call was decided before the list: %v", err)
	case <-time.After(50 * time.Millisecond): // long enough for a call that does not wait
	}
	close(proceed)
	for range 3 {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	if n := lists.Load(); n != 1 {
		t.Errorf("%d lists were requested", n)
	}
}

// A list that fails is requested again for the next call.
func TestStage_ListFailsOnce(t *testing.T) {
	s := &server{results: map[string][]string{mcp.MethodToolsList: {`{}`}}}
	do := stage(t, s, `permit(principal, action, resource) when { resource.readOnlyHint };`)
	if _, err := do(t.Context(), request(mcp.MethodToolsCall, `{"name":"a"}`)); err == nil {
		t.Error("a call was permitted without the list")
	}
	s.results[mcp.MethodToolsList] = []string{`{"tools":[{"name":"a","annotations":{"readOnlyHint":true}}]}`}
	if _, err := do(t.Context(), request(mcp.MethodToolsCall, `{"name":"a"}`)); err != nil {
		t.Error(err)
	}
}
