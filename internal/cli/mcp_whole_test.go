package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// saying is a server of the session era that answers each method with its result, after
// events.
func saying(t *testing.T, results map[string]string, events ...string) string {
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

func TestAnAnswerThatLacksSomethingIsRefused(t *testing.T) {
	for _, c := range []struct {
		method, result string
		args           []string
	}{
		{"resources/list", `{"resources":[null]}`, []string{"resources"}},
		{"resources/templates/list", `{"resourceTemplates":[null]}`, []string{"templates"}},
		{"prompts/list", `{"prompts":[null]}`, []string{"prompts"}},
		{"prompts/list", `{"prompts":[{"name":"a","arguments":[null]}]}`, []string{"prompts"}},
		{"prompts/get", `{"messages":[null]}`, []string{"prompt", "a"}},
		{"prompts/get", `{"messages":[{"role":"user","content":{"type":"resource"}}]}`, []string{"prompt", "a"}},
		{"resources/read", `{"contents":[null]}`, []string{"read", "a:b"}},
		{"tools/call", `{"content":[{"type":"resource"}]}`, []string{"call", "a"}},
		{"tools/call", `{"content":[{"type":"text","text":""},{"type":"resource"}]}`, []string{"call", "a"}},
	} {
		at := saying(t, map[string]string{c.method: c.result})
		for _, format := range []string{"table", "json"} {
			args := append([]string{"mcp", c.args[0], at, "--protocol", "session", "-o", format}, c.args[1:]...)
			stdout, stderr, code := thv(t, testApp(t), args...)
			if code != exitFailure || stdout != "" || !strings.HasSuffix(stderr, ": the server's answer lacks what must be in it\n") {
				t.Errorf("%s, as %s: exit code %d, %q, %q", c.result, format, code, stdout, stderr)
			}
		}
	}
}

func TestWhatAServerSaysWithoutParametersEndsNoCall(t *testing.T) {
	for _, event := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":null}`,
		`{"jsonrpc":"2.0","method":"notifications/message"}`,
		`{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}`,
		`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":null}`,
		`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}`,
	} {
		at := saying(t, map[string]string{"tools/call": `{"content":[{"type":"text","text":"done"}]}`, "tools/list": `{"tools":[null]}`}, event)
		stdout, stderr, code := thv(t, testApp(t), "mcp", "call", at, "a", "--arg", "b=1", "--protocol", "session")
		if code != exitOK || stdout != "done\n" {
			t.Errorf("%s: exit code %d, %q, %q", event, code, stdout, stderr)
		}
	}
}
