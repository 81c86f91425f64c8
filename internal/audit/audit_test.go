package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestConfig_Validate(t *testing.T) {
	for want, cfg := range map[string]Config{
		"":                              {EventTypes: []string{"mcp_tool_call", "http_request"}, ExcludeEventTypes: []string{"mcp_ping"}, OnFailure: Refuse, MaxDataSize: 10},
		`did you mean "mcp_tool_call"?`: {EventTypes: []string{"mcp_tool_cal"}},
		"excludeEventTypes: there is no event type": {ExcludeEventTypes: []string{"sse"}},
		"maxDataSize -1":         {MaxDataSize: -1},
		"maxDelegationDepth 101": {MaxDelegationDepth: 101},
		"maxFileSize -2":         {MaxFileSize: -2},
		`onFailure "ignore"`:     {OnFailure: "ignore"},
	} {
		err := cfg.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// recorded runs one exchange and returns its record.
func recorded(t *testing.T, cfg Config, x *exchange.Exchange, next exchange.Handler) map[string]any {
	t.Helper()
	var out bytes.Buffer
	log, err := auditlog.Open(auditlog.Options{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = New(cfg, "w", log).Stage(next)(t.Context(), x)
	if out.Len() == 0 {
		return nil
	}
	var record map[string]any
	if err := json.Unmarshal(out.Bytes(), &record); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v: %s", err, &out)
	}
	return record
}

func call(params string) *exchange.Exchange {
	meta, err := mcp.ReadMeta(json.RawMessage(params))
	if err != nil {
		panic(err) // a test's own
	}
	return &exchange.Exchange{
		Client: &exchange.Client{Version: mcp.V20251125, Info: json.RawMessage(`{"name":"inspector","version":"2"}`)},
		Caller: &exchange.Caller{Issuer: "https://idp", Subject: "s1", Claims: map[string]any{
			"email": "ann@example.com", "act": map[string]any{"sub": "agent", "act": map[string]any{"sub": "proxy"}}}},
		Source:  exchange.Source{Address: "192.0.2.7:99", UserAgent: "curl", RequestID: "r-1"},
		Request: &mcp.Message{ID: mcp.IntID(1), Method: mcp.MethodToolsCall, Params: json.RawMessage(params)},
		Meta:    meta,
	}
}

func result(raw string) exchange.Handler {
	return func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		return mcp.NewResult(x.Request.ID, json.RawMessage(raw)), nil
	}
}

func fails(err error) exchange.Handler {
	return func(context.Context, *exchange.Exchange) (*mcp.Message, error) { return nil, err }
}

func at(t *testing.T, record map[string]any, path string) any {
	t.Helper()
	var v any = record
	for key := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func TestStage_Record(t *testing.T) {
	record := recorded(t, Config{Component: "files", IncludeRequestData: true, IncludeResponseData: true},
		call(`{"name":"read","arguments":{"path":"/a","password":"hunter2","header":"Bearer abcdefghijkl"},"_meta":{"progressToken":7,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`),
		result(`{"content":[{"type":"text","text":"token ghp_0123456789abcdef"}]}`))
	for path, want := range map[string]any{
		"level": "AUDIT", "msg": "audit_event", "type": "mcp_tool_call", "outcome": "success", "component": "files",
		"source.value": "192.0.2.7:99", "source.extra.user_agent": "curl", "source.extra.request_id": "r-1",
		"subjects.user": "ann@example.com", "subjects.user_id": "s1", "subjects.issuer": "https://idp",
		"subjects.client_name": "inspector", "subjects.client_version": "2",
		"target.method": "tools/call", "target.name": "read", "target.type": "tool",
		"metadata.extra.trace_id": "0af7651916cd43dd8448eb211c80319c", "metadata.extra.protocol_version": "2025-11-25",
		"metadata.extra.response_size_bytes": 65.0,
	} {
		if got := at(t, record, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if at(t, record, "audit_id") == nil || at(t, record, "metadata.extra.duration_ms") == nil {
		t.Errorf("%v", record)
	}
	request, _ := at(t, record, "data.request").(string)
	if strings.Contains(request, "hunter2") || strings.Contains(request, "abcdefghijkl") || !strings.Contains(request, `"path":"/a"`) || !strings.Contains(request, `"progressToken":7`) {
		t.Errorf("request %s", request)
	}
	if response, _ := at(t, record, "data.response").(string); strings.Contains(response, "ghp_") || !strings.Contains(response, "token [redacted]") {
		t.Errorf("response %s", response)
	}
	if actors, _ := record["delegation"].([]any); len(actors) != 2 || actors[0] != "agent" {
		t.Errorf("delegation %v", record["delegation"])
	}
}

func TestStage_Outcomes(t *testing.T) {
	off := false
	for _, row := range []struct {
		name string
		cfg  Config
		next exchange.Handler
		want string
		code any
	}{
		{"result", Config{}, result(`{}`), "success", nil},
		{"error of the tool", Config{}, result(`{"content":[],"isError":true}`), "application_error", nil},
		{"error of the tool, not detected", Config{DetectApplicationErrors: &off}, result(`{"isError":true}`), "success", nil},
		{"error of the server", Config{}, func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
			return mcp.NewError(x.Request.ID, -32602, "Unknown tool"), nil
		}, "application_error", -32602.0},
		{"denied", Config{}, fails(exchange.Forbid("no")), "denied", 403.0},
		{"refused", Config{}, fails(&mcp.Error{Code: mcp.CodeInvalidParams, Message: "x"}), "failure", -32602.0},
		{"server gone", Config{}, fails(&mcp.Error{Code: mcp.CodeServerGone, Message: "x"}), "error", -32000.0},
		{"other error", Config{}, fails(errors.New("x")), "error", -32000.0},
	} {
		t.Run(row.name, func(t *testing.T) {
			record := recorded(t, row.cfg, call(`{"name":"a"}`), row.next)
			if record["outcome"] != row.want || at(t, record, "metadata.extra.jsonrpc_error_code") != row.code {
				t.Errorf("%v", record)
			}
		})
	}
}

func TestStage_Types(t *testing.T) {
	for _, row := range []struct {
		cfg  Config
		want bool
	}{
		{Config{}, true},
		{Config{EventTypes: []string{"mcp_tool_call"}}, true},
		{Config{EventTypes: []string{"mcp_ping"}}, false},
		{Config{EventTypes: []string{"mcp_tool_call"}, ExcludeEventTypes: []string{"mcp_tool_call"}}, false},
	} {
		if got := recorded(t, row.cfg, call(`{"name":"a"}`), result(`{}`)); (got != nil) != row.want {
			t.Errorf("%+v: %v", row.cfg, got)
		}
	}
}

// full fails every write.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestStage_RecordsCannotBeStored(t *testing.T) {
	for refuse, want := range map[bool]bool{true: false, false: true} {
		failed := 0
		log, err := auditlog.Open(auditlog.Options{Out: full{}, Accept: !refuse, Failed: func() { failed++ }})
		if err != nil {
			t.Fatal(err)
		}
		do := New(Config{}, "w", log).Stage(result(`{}`))
		if _, err := do(t.Context(), call(`{"name":"a"}`)); err != nil {
			t.Fatalf("the first call, whose record fails later: %v", err)
		}
		_, err = do(t.Context(), call(`{"name":"a"}`))
		if (err == nil) != want || failed == 0 {
			t.Errorf("refuse %v: %v, %d failures", refuse, err, failed)
		}
		var rpc *mcp.Error
		if err != nil && (!errors.As(err, &rpc) || rpc.Status != http.StatusServiceUnavailable) {
			t.Errorf("%#v", err)
		}
	}
}

func TestRedact(t *testing.T) {
	for _, row := range [][2]string{
		{`{"api_key":"a","Api-Key":1,"x":{"client_secret":{"deep":1}}}`, `{"Api-Key":"[redacted]","api_key":"[redacted]","x":{"client_secret":"[redacted]"}}`},
		{`["Authorization: Basic dXNlcjpwYXNzd29yZA==","eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"]`, `["Authorization: [redacted]","[redacted]"]`},
		{`"postgres://ann:pw@db/x"`, `"postgres[redacted]db/x"`},
		{`{"n":12345678901234567890,"html":"<a&b>"}`, `{"html":"<a&b>","n":12345678901234567890}`},
		{`{`, redacted},
	} {
		if got := redact(json.RawMessage(row[0]), 1000); got != row[1] {
			t.Errorf("%s: %s, want %s", row[0], got, row[1])
		}
	}
	if got := redact(json.RawMessage(`"ääää"`), 4); got != `"ä…` {
		t.Errorf("cut: %s", got)
	}
}

func BenchmarkStage(b *testing.B) {
	log, err := auditlog.Open(auditlog.Options{Out: io.Discard, Accept: true})
	if err != nil {
		b.Fatal(err)
	}
	do := New(Config{}, "w", log).Stage(result(`{"content":[]}`))
	x := call(`{"name":"a","arguments":{}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := do(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}
