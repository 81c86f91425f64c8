package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// sessionServer is a server of the session era, by what it does.
type sessionServer struct {
	exchange.BackendDefaults
	capabilities string
	do           func(ctx context.Context, c *atOne, x *exchange.Exchange) (*mcp.Message, error)

	mu     sync.Mutex
	opened []*atOne
}

type atOne struct {
	exchange.ConnDefaults
	*sessionServer
	client *exchange.Client
	peer   exchange.Peer
	done   chan struct{}
	end    sync.Once
	mu     sync.Mutex
	asked  []string // method and params of every request
}

func (s *sessionServer) Open(_ context.Context, client *exchange.Client, peer exchange.Peer) (exchange.Conn, error) {
	c := &atOne{sessionServer: s, client: client, peer: peer, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, c)
	return c, nil
}

func (s *sessionServer) Close() error { return nil }

func (s *sessionServer) sessions() []*atOne {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

func (c *atOne) InitializeResult() json.RawMessage {
	return json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":` + c.capabilities + `,"serverInfo":{"name":"old"},"instructions":"be kind"}`)
}

func (c *atOne) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	c.mu.Lock()
	c.asked = append(c.asked, x.Request.Method+" "+string(x.Request.Params))
	c.mu.Unlock()
	if c.do != nil {
		if m, err := c.do(ctx, c, x); m != nil || err != nil {
			return m, err
		}
	}
	return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
}

func (c *atOne) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.asked...)
}

func (c *atOne) Notify(context.Context, *mcp.Message) error { return nil }
func (c *atOne) Done() <-chan struct{}                      { return c.done }
func (c *atOne) Close() error                               { c.end.Do(func() { close(c.done) }); return nil }

// atSessions is the way of stateless clients to s.
func atSessions(t *testing.T, s *sessionServer) exchange.Backend {
	t.Helper()
	if s.capabilities == "" {
		s.capabilities = `{}`
	}
	b := newBridge(endpoints{sessions: s}, true, backendtest.TestLog())
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// statelessRequest is one of a client with those capabilities.
func statelessRequest(method, members, capabilities string, peer exchange.Peer) *exchange.Exchange {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
	if members != "" {
		meta = members + "," + meta
	}
	request := &mcp.Message{ID: mcp.StringID("r"), Method: method, Params: json.RawMessage(`{` + meta + `}`)}
	return &exchange.Exchange{
		Client:  &exchange.Client{Version: mcp.V20260728, Capabilities: json.RawMessage(capabilities)},
		Request: request, Meta: backendtest.MetaOf(request),
		Peer: peer,
	}
}

func TestStatelessClientsGetCompleteResults(t *testing.T) {
	t.Parallel()
	const canURL = `{"elicitation":{"url":{}}}`
	atURL := func(elicitations string) *mcp.Error {
		return &mcp.Error{Code: -32042, Message: "go there", Data: json.RawMessage(`{"elicitations":[` + elicitations + `]}`)}
	}
	const intro = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"old"}`
	for _, row := range []struct {
		name, method, members, result string
		capabilities                  string // of the client
		err                           *mcp.Error
		want, wantErr                 string
		heard                         string // the server heard, "" for anything
	}{
		{name: "a call", method: "tools/call", members: `"name":"a"`, result: `{"content":[]}`,
			want: `{"resultType":"complete",` + intro + `},"content":[]}`, heard: `tools/call {"name":"a","_meta":{}}`},
		{name: "an empty result", method: "completion/complete", result: `{}`, want: `{"resultType":"complete",` + intro + `}}`},
		{name: "a list says how long it is good for", method: "prompts/list", result: `{"prompts":[]}`,
			want: `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + intro + `},"prompts":[]}`},
		{name: "what a server writes into the same places", method: "tools/call", members: `"name":"a"`, result: `{"resultType":"input_required","requestState":"x","_meta":{"a":1,"io.modelcontextprotocol/serverInfo":2}}`,
			want: `{"resultType":"complete",` + intro + `,"a":1}}`},
		{name: "a progress token stays", method: "tools/call", members: `"name":"a","_other":1`, result: `{}`, want: `{"resultType":"complete",` + intro + `}}`},
		{name: "answers that nobody waits for", method: "tools/call", members: `"name":"a","inputResponses":{"1":{}}`, result: `{}`,
			want: `{"resultType":"complete",` + intro + `}}`, heard: `tools/call {"name":"a","_meta":{}}`},
		// MCP 2026-07-28, Error Codes.
		{name: "no such resource", method: "resources/read", members: `"uri":"a:b"`, err: &mcp.Error{Code: -32002, Message: "none", Data: json.RawMessage(`{"uri":"a:b"}`)}, wantErr: `-32602 none {"uri":"a:b"}`},
		{name: "an error of its own", method: "tools/call", members: `"name":"a"`, err: &mcp.Error{Code: 7, Message: "no"}, wantErr: "7 no "},
		{name: "something to do at a URL", method: "tools/call", members: `"name":"a"`, capabilities: canURL, err: atURL(`{"mode":"url","elicitationId":"e","url":"https://x","message":"m"}`),
			want: `{"resultType":"input_required","inputRequests":{"1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}}}`},
		{name: "which the client did not say it can", method: "tools/call", members: `"name":"a"`, capabilities: `{"elicitation":{}}`, err: atURL(`{"mode":"url","elicitationId":"e","url":"https://x","message":"m"}`),
			wantErr: `-32021 go there {"requiredCapabilities":{"elicitation":{"url":{}}}}`},
		{name: "in an answer that cannot ask", method: "prompts/list", capabilities: canURL, err: atURL(`{"mode":"url","elicitationId":"e","url":"https://x","message":"m"}`), wantErr: "cannot in an answer to prompts/list"},
		{name: "nothing to do at a URL", method: "tools/call", members: `"name":"a"`, capabilities: canURL, err: atURL(``), wantErr: "it names none"},
		{name: "a form instead", method: "tools/call", members: `"name":"a"`, capabilities: canURL, err: atURL(`{"message":"m","requestedSchema":{}}`), wantErr: "another mode"},
		{name: "what is no elicitation", method: "tools/call", members: `"name":"a"`, capabilities: canURL, err: atURL(`1`), wantErr: "another mode"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &sessionServer{do: func(_ context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
				if x.Request.Method == mcp.MethodToolsList {
					return mcp.NewResult(x.Request.ID, json.RawMessage(`{"tools":[]}`)), nil
				}
				return &mcp.Message{ID: x.Request.ID, Result: json.RawMessage(row.result), Error: row.err}, nil
			}}
			if row.capabilities == "" {
				row.capabilities = `{}`
			}
			m, err := atSessions(t, s).Do(t.Context(), statelessRequest(row.method, row.members, row.capabilities, nil))
			if err != nil {
				if row.wantErr == "" || !strings.Contains(err.Error(), row.wantErr) {
					t.Error(err)
				}
				return
			}
			if row.wantErr != "" {
				if m.Error == nil || fmt.Sprint(m.Error.Code, " ", m.Error.Message, " ", string(m.Error.Data)) != row.wantErr {
					t.Errorf("got %s", m.Encode())
				}
			} else if diff := cmp.Diff(row.want, string(m.Result)); diff != "" {
				t.Error(diff)
			}
			if m.ID != mcp.StringID("r") {
				t.Errorf("the id is %s", m.ID)
			}
			if heard := s.sessions()[0].heard(); row.heard != "" && heard[len(heard)-1] != row.heard {
				t.Errorf("the server heard %q", heard)
			}
		})
	}
}

// A server that asks in a mode that the client did not declare is told so (MCP
// 2025-11-25, Elicitation, Error Handling).
func TestStatelessClientsAreAskedAsTheyDeclared(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		capabilities, params string
		asked                bool
	}{
		{`{"elicitation":{}}`, `{"message":"m"}`, true},
		{`{"elicitation":{}}`, `{"mode":"url","url":"https://x"}`, false},
		{`{"elicitation":{"form":{}}}`, `{"mode":"form"}`, true},
		{`{"elicitation":{"form":{}}}`, `{"mode":"url"}`, false},
		{`{"elicitation":{"url":{}}}`, `{"mode":"url"}`, true},
		{`{"elicitation":{"url":{}}}`, `{"message":"m"}`, false},
		{`{"elicitation":{"form":{},"url":{}}}`, `{"mode":"other"}`, false},
		{`{"elicitation":null}`, `{"message":"m"}`, false},
		{`{"sampling":{}}`, `{"message":"m"}`, false},
	} {
		s := &sessionServer{do: func(ctx context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
			if x.Request.Method != mcp.MethodToolsCall {
				return nil, nil
			}
			_, err := x.Peer.Ask(ctx, backendtest.Request(mcp.IntID(1), mcp.MethodElicitation, row.params))
			if asked := err == nil; asked != row.asked || !asked && backendtest.CodeOf(err) != mcp.CodeInvalidParams {
				t.Errorf("%s was asked %s: %v", row.capabilities, row.params, err)
			}
			return nil, nil
		}}
		client := backendtest.Answering(map[string]string{mcp.MethodElicitation: `{"action":"accept"}`})
		if _, err := atSessions(t, s).Do(backendtest.TestContext(t), statelessRequest(mcp.MethodToolsCall, `"name":"a"`, row.capabilities, client)); err != nil {
			t.Error(err)
		}
	}
}

func TestStatelessClientsDiscoverAServerWithSessions(t *testing.T) {
	t.Parallel()
	s := &sessionServer{capabilities: `{"tools":{"listChanged":true},"tasks":{}}`}
	m, err := atSessions(t, s).Do(t.Context(), statelessRequest("server/discover", "", `{"roots":{}}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],` +
		`"capabilities":{"tools":{"listChanged":true}},"instructions":"be kind","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"old"}}}`
	if diff := cmp.Diff(want, string(m.Result)); diff != "" {
		t.Error(diff)
	}
	client := s.sessions()[0].client
	if client.Version != mcp.V20251125 || string(client.Capabilities) != `{"roots":{}}` {
		t.Errorf("the session was opened for %+v", client)
	}
}

func TestWhoSharesASession(t *testing.T) {
	t.Parallel()
	call := func(capabilities, principal string) *exchange.Exchange {
		x := statelessRequest("tools/call", `"name":"a"`, capabilities, nil)
		x.Client.Principal = principal
		return x
	}
	hold := make(chan struct{})
	entered := make(chan struct{}, 10)
	s := &sessionServer{do: func(_ context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == mcp.MethodToolsCall {
			entered <- struct{}{}
			<-hold
		}
		return nil, nil
	}}
	b := atSessions(t, s)
	var wg sync.WaitGroup
	for _, x := range []*exchange.Exchange{
		call(`{}`, ""), call(`{}`, ""), call(`{ }`, ""), // the same
		call(`{}`, "alice"),                                      // somebody else
		call(`{"sampling":{}}`, ""), call(`{"sampling":{}}`, ""), // could be asked: one each
	} {
		wg.Go(func() {
			if _, err := b.Do(t.Context(), x); err != nil {
				t.Error(err)
			}
		})
	}
	for range 6 {
		<-entered
	}
	serving := 0
	for _, c := range s.sessions() {
		for _, m := range c.heard() {
			if strings.HasPrefix(m, "tools/call") {
				serving++
				break
			}
		}
	}
	if serving != 4 {
		t.Errorf("%d sessions serve six calls", serving)
	}
	close(hold)
	wg.Wait()
}

func TestALostSessionIsReplacedButNoCallIsMadeTwice(t *testing.T) {
	t.Parallel()
	lost := &mcp.Error{Code: mcp.CodeSessionNotFound, Message: "gone"}
	calls := 0
	s := &sessionServer{}
	s.do = func(_ context.Context, c *atOne, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == mcp.MethodToolsCall {
			calls++
		}
		if s.sessions()[0] == c && x.Request.Method != mcp.MethodToolsList {
			_ = c.Close()
			return nil, lost
		}
		return nil, nil
	}
	b := atSessions(t, s)
	if _, err := b.Do(t.Context(), statelessRequest("prompts/list", "", `{}`, nil)); err != nil {
		t.Errorf("a question that can be asked again: %v", err)
	}
	s.mu.Lock()
	s.opened = nil
	s.mu.Unlock()
	b2 := atSessions(t, s)
	_, err := b2.Do(t.Context(), statelessRequest("tools/call", `"name":"a"`, `{}`, nil))
	var rpc *mcp.Error
	if !errors.As(err, &rpc) || rpc.Code != mcp.CodeServerGone || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// heardPeer collects what comes.
type heardPeer struct {
	exchange.PeerDefaults
	came chan *mcp.Message
}

func (p heardPeer) Notify(m *mcp.Message) {
	p.came <- &mcp.Message{Method: m.Method, Params: append(json.RawMessage(nil), m.Params...)}
}

func (p heardPeer) Ask(context.Context, *mcp.Message) (*mcp.Message, error) {
	return nil, errors.New("nobody is there")
}

func TestLogsGoToRequestsThatWantThem(t *testing.T) {
	t.Parallel()
	s := &sessionServer{capabilities: `{"logging":{}}`, do: func(_ context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == mcp.MethodToolsCall {
			for _, level := range []string{"debug", "warning", "error"} {
				x.Peer.Notify(&mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(`{"level":"` + level + `"}`)})
			}
		}
		return nil, nil
	}}
	b := atSessions(t, s)
	call := func(level string) []string {
		peer := heardPeer{came: make(chan *mcp.Message, 10)}
		x := statelessRequest("tools/call", `"name":"a"`, `{}`, peer)
		if level != "" {
			var err error
			if x.Request.Params, err = mcp.Set(x.Request.Params, json.RawMessage(`"`+level+`"`), "_meta", mcp.MetaLogLevel); err != nil {
				t.Fatal(err)
			}
			x.Meta = backendtest.MetaOf(x.Request)
		}
		if _, err := b.Do(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		close(peer.came)
		var levels []string
		for m := range peer.came {
			level, _, _ := mcp.LookupString(m.Params, "level")
			levels = append(levels, level)
		}
		return levels
	}
	if got := call(""); got != nil {
		t.Errorf("without a level came %v", got)
	}
	if diff := cmp.Diff([]string{"warning", "error"}, call("info")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"error"}, call("error")); diff != "" {
		t.Error(diff)
	}
	call("error")
	var set [][]string
	for _, session := range s.sessions() {
		var here []string
		for _, m := range session.heard() {
			if strings.HasPrefix(m, "logging/setLevel") {
				here = append(here, m)
			}
		}
		set = append(set, here)
	}
	if diff := cmp.Diff([][]string{nil, {`logging/setLevel {"level":"info"}`, `logging/setLevel {"level":"error"}`}}, set); diff != "" {
		t.Errorf("the shared session was given a level, or another one the same twice: %s", diff)
	}
}

func TestSubscriptionsAreCountedAndMarked(t *testing.T) {
	t.Parallel()
	s := &sessionServer{capabilities: `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`}
	b := atSessions(t, s)
	listen := func(id string) (heardPeer, context.CancelFunc, chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		peer, ended := heardPeer{came: make(chan *mcp.Message, 10)}, make(chan error, 1)
		x := statelessRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b","a:b"]}`, `{}`, peer)
		x.Request.ID = mcp.StringID(id)
		go func() {
			_, err := b.Do(ctx, x)
			ended <- err
		}()
		want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":"` + id + `"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}`
		if m := next(t, peer); m.Method != mcp.NotificationSubscribed || string(m.Params) != want {
			t.Fatalf("the first message is %s", m.Encode())
		}
		return peer, cancel, ended
	}
	one, leaveOne, endedOne := listen("one")
	two, leaveTwo, endedTwo := listen("two")
	at := s.sessions()[0]
	at.peer.Notify(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"a:b"}`)})
	at.peer.Notify(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"c:d"}`)})
	at.peer.Notify(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"a:b/part"}`)})
	at.peer.Notify(&mcp.Message{Method: mcp.NotificationPromptsChanged})
	at.peer.Notify(&mcp.Message{Method: mcp.NotificationToolsChanged})
	for id, peer := range map[string]heardPeer{"one": one, "two": two} {
		mark := `"_meta":{"io.modelcontextprotocol/subscriptionId":"` + id + `"}`
		if m := next(t, peer); m.Method != mcp.NotificationResourceUpdated || string(m.Params) != `{`+mark+`,"uri":"a:b"}` {
			t.Errorf("%s heard %s", id, m.Encode())
		}
		// What was updated may be a part of what is subscribed to.
		if m := next(t, peer); m.Method != mcp.NotificationResourceUpdated || string(m.Params) != `{`+mark+`,"uri":"a:b/part"}` {
			t.Errorf("%s heard %s", id, m.Encode())
		}
		if m := next(t, peer); m.Method != mcp.NotificationToolsChanged || string(m.Params) != `{`+mark+`}` {
			t.Errorf("%s heard %s", id, m.Encode())
		}
	}
	told := func() []string {
		var out []string
		for _, m := range at.heard() {
			if strings.HasPrefix(m, "resources/") {
				out = append(out, m)
			}
		}
		return out
	}
	leaveOne()
	<-endedOne
	if diff := cmp.Diff([]string{`resources/subscribe {"uri":"a:b"}`}, told()); diff != "" {
		t.Error(diff)
	}
	leaveTwo()
	<-endedTwo
	if diff := cmp.Diff([]string{`resources/subscribe {"uri":"a:b"}`, `resources/unsubscribe {"uri":"a:b"}`}, told()); diff != "" {
		t.Error(diff)
	}
	_, _, ended := listen("three")
	_ = at.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "subscribe again") {
		t.Errorf("when the server ends: %v", err)
	}
}

// What two readers could read differently is refused, and what cannot be read.
func TestBadSubscriptionFilters(t *testing.T) {
	t.Parallel()
	b := atSessions(t, &sessionServer{capabilities: `{"tools":{"listChanged":true}}`})
	for _, notifications := range []string{
		`{"toolsListChanged":true,"toolsListChanged":false}`,
		`{"toolsListChanged":true,"ToolsListChanged":false}`,
		`{"toolsListChanged":1}`, `{"resourceSubscriptions":"a:b"}`, `{"resourceSubscriptions":[1]}`, `[]`, `null`, `true`,
		`{"resourceSubscriptions":["a` + strings.Repeat(`","a`, subscribe.MaxResources) + `"]}`,
	} {
		_, err := b.Do(backendtest.TestContext(t), statelessRequest("subscriptions/listen", `"notifications":`+notifications, `{}`, heardPeer{came: make(chan *mcp.Message, 10)}))
		var rpc *mcp.Error
		if !errors.As(err, &rpc) || rpc.Code != mcp.CodeInvalidParams {
			t.Errorf("%.60s: %v", notifications, err)
		}
	}
}

func next(t *testing.T, p heardPeer) *mcp.Message {
	t.Helper()
	select {
	case m := <-p.came:
		return m
	case <-time.After(backendtest.Patience):
		t.Fatal("nothing came")
		return nil
	}
}

func TestParameterHeadersAreComparedWhereNobodyElseDoes(t *testing.T) {
	t.Parallel()
	s := &sessionServer{do: func(_ context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == mcp.MethodToolsList {
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{
				"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}}]}`)), nil
		}
		return nil, nil
	}}
	b := atSessions(t, s)
	for _, row := range []struct {
		name, arguments string
		headers         map[string][]string
		ok              bool
	}{
		{"they agree", `{"region":"eu","n":12}`, map[string][]string{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"12"}}, true},
		{"encoded", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?ZXU=?="}}, true},
		{"a number written in another way", `{"n":12}`, map[string][]string{"Mcp-Param-N": {"12.0"}}, true},
		{"neither is there", `{}`, nil, true},
		{"null is as nothing", `{"region":null}`, nil, true},
		{"headers nobody defined", `{}`, map[string][]string{"Mcp-Param-Who": {"me"}}, true},
		{"the header is missing", `{"region":"eu"}`, nil, false},
		{"the argument is missing", `{}`, map[string][]string{"Mcp-Param-Region": {"eu"}}, false},
		{"they differ", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"us"}}, false},
		{"twice", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"eu", "eu"}}, false},
		{"not what its encoding says", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?ZXU?="}}, false},
	} {
		x := statelessRequest("tools/call", `"name":"a","arguments":`+row.arguments, `{}`, nil)
		x.Headers = row.headers
		_, err := b.Do(t.Context(), x)
		var rpc *mcp.Error
		if row.ok && err != nil || !row.ok && (!errors.As(err, &rpc) || rpc.Code != mcp.CodeHeaderMismatch) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// A server keeps what it was told in its session: a stateless client finds the one that
// it used last again for half an hour, and others are not kept that long.
func TestTheSessionThatWasUsedLastIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 3
		var all sync.WaitGroup
		all.Add(calls)
		s := &sessionServer{capabilities: `{"tools":{}}`, do: func(_ context.Context, _ *atOne, x *exchange.Exchange) (*mcp.Message, error) {
			if x.Request.ID == mcp.StringID("r") {
				all.Done()
				all.Wait() // at the same time
			}
			return nil, nil
		}}
		b := atSessions(t, s)
		var done sync.WaitGroup
		for range calls {
			done.Go(func() {
				if _, err := b.Do(t.Context(), statelessRequest("tools/call", `"name":"a"`, `{"elicitation":{}}`, nil)); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		living := func() (n int) {
			for _, c := range s.sessions() {
				select {
				case <-c.done:
				default:
					n++
				}
			}
			return n
		}
		for _, at := range []struct {
			after time.Duration
			want  int
		}{{time.Minute, 1 + calls}, {2 * time.Minute, 2}, {26 * time.Minute, 2}, {2 * time.Minute, 0}} { // and the one that the list of tools came from
			time.Sleep(at.after)
			synctest.Wait()
			if n := living(); n != at.want {
				t.Errorf("%v later: %d sessions, want %d", at.after, n, at.want)
			}
		}
	})
}

// What a call has changed in its session shows in what its client asks for next.
func TestAListComesFromTheSessionOfTheLastCall(t *testing.T) {
	t.Parallel()
	s := &sessionServer{capabilities: `{"tools":{}}`}
	b := atSessions(t, s)
	for _, x := range []*exchange.Exchange{
		statelessRequest("tools/call", `"name":"a"`, `{"elicitation":{}}`, nil),
		statelessRequest("prompts/list", "", `{"elicitation":{}}`, nil),
	} {
		if _, err := b.Do(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range s.sessions() {
		called := slices.ContainsFunc(c.heard(), func(m string) bool { return strings.HasPrefix(m, "tools/call") })
		listed := slices.ContainsFunc(c.heard(), func(m string) bool { return strings.HasPrefix(m, "prompts/list") })
		if called != listed {
			t.Errorf("a session heard %q", c.heard())
		}
	}
}
