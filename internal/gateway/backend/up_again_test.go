package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// TestEachRoundOfACallGetsTheLogMessagesThatItAsksFor has a stateless client go on with
// a call at a server of the session era, by POSTs that ask for other messages than the
// first one (MCP 2026-07-28, Logging).
func TestEachRoundOfACallGetsTheLogMessagesThatItAsksFor(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name          string
		levels        [2]string
		deaf          bool // the server reads nothing else while it waits for an answer
		first, second []string
		set           []string // what the server is told
	}{
		{name: "none", levels: [2]string{"", ""}},
		{name: "only the first", levels: [2]string{"debug", ""}, first: []string{"before info"}, set: []string{"debug"}},
		{name: "only the second", levels: [2]string{"", "info"}, second: []string{"after info", "after error"}, set: []string{"info"}},
		{name: "the second asks for less", levels: [2]string{"debug", "error"}, first: []string{"before info"}, second: []string{"after error"}, set: []string{"debug", "error"}},
		{name: "the second asks for more", levels: [2]string{"error", "debug"}, second: []string{"after info", "after error"}, set: []string{"error", "debug"}},
		{
			name: "both the same", levels: [2]string{"info", "info"}, set: []string{"info"},
			first: []string{"before info"}, second: []string{"meanwhile info", "after info", "after error"},
		},
		{name: "a server that is deaf while it asks", deaf: true, levels: [2]string{"", "info"}, second: []string{"after info", "after error"}, set: []string{"info"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			parked, said := make(chan struct{}), make(chan struct{})
			var setWhenAnswered []string
			s := &sessionServer{capabilities: `{"logging":{}}`}
			s.do = func(ctx context.Context, c *atOne, x *exchange.Exchange) (*mcp.Message, error) {
				if x.Request.Method != mcp.MethodToolsCall {
					if row.deaf && x.Request.Method == mcp.MethodSetLevel {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, nil
				}
				logged := func(level, what string) {
					x.Peer.Notify(&mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(`{"level":"` + level + `","data":"` + what + `"}`)})
				}
				logged("info", "before info")
				go func() {
					defer close(said)
					<-parked
					logged("info", "meanwhile info")
				}()
				_, err := x.Peer.Ask(ctx, &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodElicitation, Params: json.RawMessage(`{"message":"who?"}`)})
				if err != nil {
					return nil, err
				}
				for _, m := range c.heard() {
					if m, ok := strings.CutPrefix(m, mcp.MethodSetLevel+" "); ok {
						level, _, _ := mcp.LookupString([]byte(m), "level")
						setWhenAnswered = append(setWhenAnswered, level)
					}
				}
				logged("info", "after info")
				logged("error", "after error")
				return nil, nil
			}
			srv := front(t, atSessions(t, s))

			logs, result := callRound(t, srv.URL, `"name":"a"`, row.levels[0], "")
			state, _, err := mcp.LookupString(result.Result, "requestState")
			if err != nil || state == "" {
				t.Fatalf("got %s", result.Encode())
			}
			if d := cmp.Diff(row.first, logs); d != "" {
				t.Errorf("the first got %s", d)
			}
			close(parked)
			<-said
			if _, result := callRound(t, srv.URL, `"name":"a"`, "loud", state); result.Error == nil || result.Error.Code != mcp.CodeInvalidParams {
				t.Errorf("a level that is none got %s", result.Encode())
			}
			logs, result = callRound(t, srv.URL, `"name":"a"`, row.levels[1], state)
			if kind, _, _ := mcp.LookupString(result.Result, "resultType"); kind != mcp.ResultComplete {
				t.Fatalf("got %s", result.Encode())
			}
			if d := cmp.Diff(row.second, logs); d != "" {
				t.Errorf("the second got %s", d)
			}
			if d := cmp.Diff(row.set, setWhenAnswered); d != "" {
				t.Errorf("the server was told, before it had its answer: %s", d)
			}
		})
	}
}

// front is a gateway before b.
func front(t *testing.T, b exchange.Backend) *httptest.Server {
	t.Helper()
	g, err := gateway.New(gateway.Config{Backend: b, Name: "w", Endpoint: endpoint.Config{Mode: endpoint.Streamable}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return serve(t, g)
}

// callRound POSTs a call of what is named first in members, or what goes on with it, and
// returns the log messages and the result that came.
func callRound(t *testing.T, url, members, level, state string) (logs []string, result *mcp.Message) {
	t.Helper()
	more := ""
	if state != "" {
		more = fmt.Sprintf(`,"requestState":%q,"inputResponses":{"1":{"action":"decline"}}`, state)
	}
	meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`
	if level != "" {
		meta += `,"` + mcp.MetaLogLevel + `":"` + level + `"`
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + members + `,"_meta":{` + meta + `}` + more + `}}`
	name, _, _ := mcp.LookupString([]byte("{"+members+"}"), "name")
	r, err := http.NewRequestWithContext(backendtest.TestContext(t), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{
		"Content-Type": mcp.TypeJSON, "Accept": mcp.TypeJSON + ", " + mcp.TypeEventStream,
		mcp.HeaderVersion: string(mcp.V20260728), mcp.HeaderMethod: mcp.MethodToolsCall, mcp.HeaderName: name,
	} {
		r.Header.Set(header, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := [][]byte{all}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), mcp.TypeEventStream) {
		lines = slices.DeleteFunc(bytes.Split(all, []byte("\n")), func(line []byte) bool { return !bytes.HasPrefix(line, []byte("data: ")) })
	}
	for _, line := range lines {
		m, err := mcp.Parse(bytes.TrimPrefix(line, []byte("data: ")))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m.Kind() == mcp.Response {
			return logs, m
		}
		data, _, _ := mcp.LookupString(m.Params, "data")
		logs = append(logs, data)
	}
	t.Fatalf("there is no response: %s", all)
	return nil, nil
}

// The session of a call is another's when that is over, and may not be in doubt then
// about what it is still told for the first.
func TestNothingIsSaidForACallThatIsOver(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		before bool // the call is over before its client comes back, or while the server is told of a level
	}{{"before", true}, {"meanwhile", false}} {
		t.Run(row.name, func(t *testing.T) {
			withdraw, over, told := make(chan struct{}), make(chan struct{}), make(chan struct{}, 10)
			var at []*atOne
			s := &sessionServer{capabilities: `{"logging":{}}`}
			s.do = func(ctx context.Context, c *atOne, x *exchange.Exchange) (*mcp.Message, error) {
				switch x.Request.Method {
				case mcp.MethodSetLevel:
					told <- struct{}{}
					close(withdraw)
					<-ctx.Done()
					return nil, ctx.Err()
				case mcp.MethodToolsCall:
					at = append(at, c)
					if len(at) > 1 {
						return nil, nil
					}
					asking, cancel := context.WithCancel(ctx)
					defer cancel()
					defer close(over)
					go func() {
						<-withdraw
						cancel()
					}()
					_, _ = x.Peer.Ask(asking, &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodElicitation, Params: json.RawMessage(`{}`)})
				}
				return nil, nil
			}
			b := atSessions(t, s)
			srv := front(t, b)
			_, result := callRound(t, srv.URL, `"name":"a"`, "", "")
			state, _, _ := mcp.LookupString(result.Result, "requestState")
			if row.before {
				close(withdraw)
				<-over
				backendtest.Eventually(t, "the session to be given back", func() bool {
					return b.(*bridge).up.Idle() == 1
				})
			}
			_, result = callRound(t, srv.URL, `"name":"a"`, "info", state)
			if kind, _, _ := mcp.LookupString(result.Result, "resultType"); kind != mcp.ResultComplete {
				t.Fatalf("got %s", result.Encode())
			}
			if len(told) > 0 == row.before {
				t.Errorf("the server was told of %d levels", len(told))
			}
			callRound(t, srv.URL, `"name":"a"`, "", "")
			if same := at[0] == at[1]; same != row.before {
				t.Errorf("the next call is in the same session: %t", same)
			}
		})
	}
}
