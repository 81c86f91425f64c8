package mcpcmd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// replyServer is a server of the session era that answers each method with its result,
// after events.
func replyServer(t *testing.T, results map[string]string, events ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if len(m.ID) == 0 || m.Method == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result, ok := results[m.Method]
		if m.Method == "initialize" {
			result, ok = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"logging":{}},"serverInfo":{"name":"hostile","version":"1"}}`, true
		}
		if !ok {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if m.Method != "initialize" {
			for _, e := range events {
				fmt.Fprintf(w, "data: %s\n\n", e)
			}
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, result)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// The schema has an object where these have null. They are left out, and end nothing.
func TestNullInResults(t *testing.T) {
	for _, c := range []struct {
		method, result string
		args           []string
		want           string
	}{
		{"resources/list", `{"resources":[null]}`, []string{"resources"}, ""},
		{"resources/templates/list", `{"resourceTemplates":[null]}`, []string{"templates"}, ""},
		{"prompts/list", `{"prompts":[null,{"name":"a","arguments":[null]}]}`, []string{"prompts"}, "a\t\t\n"},
		{"prompts/get", `{"messages":[null]}`, []string{"prompt", "a"}, ""},
		{"prompts/get", `{"messages":[{"role":"user","content":{"type":"resource"}}]}`, []string{"prompt", "a"}, "user: [resource]\n"},
		{"resources/read", `{"contents":[null]}`, []string{"read", "a:b"}, ""},
		{"tools/call", `{"content":[{"type":"resource"}]}`, []string{"call", "a"}, "[resource]\n"},
		{"tools/call", `{"content":[{"type":"text","text":"x"},{"type":"resource"}]}`, []string{"call", "a"}, "x\n[resource]\n"},
	} {
		at := replyServer(t, map[string]string{c.method: c.result})
		args := append([]string{"mcp", c.args[0], at, "--protocol", "session"}, c.args[1:]...)
		if stdout, stderr, code := clitest.Run(t, clitest.App(t), args...); code != base.ExitOK || stdout != c.want {
			t.Errorf("%s: exit code %d, %q, %q", c.result, code, stdout, stderr)
		}
		if _, stderr, code := clitest.Run(t, clitest.App(t), append(args, "-o", "json")...); code != base.ExitOK {
			t.Errorf("%s, as JSON: exit code %d, %q", c.result, code, stderr)
		}
	}
}

func TestServerMessagesWithoutParams(t *testing.T) {
	for _, event := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":null}`,
		`{"jsonrpc":"2.0","method":"notifications/message"}`,
		`{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}`,
		`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":null}`,
		`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}`,
	} {
		at := replyServer(t, map[string]string{"tools/call": `{"content":[{"type":"text","text":"done"}]}`, "tools/list": `{"tools":[null]}`}, event)
		stdout, stderr, code := clitest.Run(t, clitest.App(t), "mcp", "call", at, "a", "--arg", "b=1", "--protocol", "session")
		if code != base.ExitOK || stdout != "done\n" {
			t.Errorf("%s: exit code %d, %q, %q", event, code, stdout, stderr)
		}
	}
}
