package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/exchange"
)

// recorder returns a Recorder and a function with the records so far.
func recorder(t *testing.T, cfg Config) (*Recorder, func() []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	log, err := auditlog.Open(auditlog.Options{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	return New(cfg, "w", log), func() (records []map[string]any) {
		for line := range strings.Lines(out.String()) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			records = append(records, record)
		}
		return records
	}
}

var refusal = Refusal{
	Source: exchange.Source{Address: "192.0.2.7:99", UserAgent: "curl", RequestID: "r-1"},
	Method: "POST", Path: "/mcp", Status: 401, Code: "invalid_token", Description: "the access token is not valid here",
}

func TestRefused(t *testing.T) {
	r, records := recorder(t, Config{})
	r.Refused(refusal)
	got := records()
	if len(got) != 1 {
		t.Fatalf("%v", got)
	}
	for path, want := range map[string]any{
		"level": "AUDIT", "msg": "audit_event", "type": "http_request", "outcome": "denied", "component": "w",
		"source.value": "192.0.2.7:99", "source.extra.user_agent": "curl", "source.extra.request_id": "r-1",
		"subjects.user": "anonymous", "target.method": "POST", "target.endpoint": "/mcp",
		"metadata.extra.http_status": 401.0, "metadata.extra.error": "invalid_token", "metadata.extra.suppressed_records": nil,
	} {
		if value := at(t, got[0], path); value != want {
			t.Errorf("%s is %v, want %v", path, value, want)
		}
	}
}

// Refused requests cannot fill the log. The number of those without a record is in the next.
func TestRefused_Flood(t *testing.T) {
	r, records := recorder(t, Config{})
	for range 10_000 {
		r.Refused(refusal)
	}
	if n := len(records()); n < refusalBurst || n > 2*refusalBurst {
		t.Errorf("%d records", n)
	}
	r.refusals.SetLimit(1e9)
	for at(t, records()[len(records())-1], "metadata.extra.suppressed_records") == nil {
		r.Refused(refusal)
	}
	stored, suppressed := 0, 0
	for _, record := range records() {
		stored++
		if n, ok := at(t, record, "metadata.extra.suppressed_records").(float64); ok {
			suppressed += int(n)
		}
	}
	if stored+suppressed < 10_000 {
		t.Errorf("%d records and %d suppressed", stored, suppressed)
	}
}

func TestToolChanged(t *testing.T) {
	r, records := recorder(t, Config{})
	r.ToolChanged("echo", `the description of tool "echo" has changed`, false)
	r.ToolChanged("echo", `the description of tool "echo" has changed`, true)
	for i, outcome := range []string{"success", "denied"} {
		record := records()[i]
		if record["type"] != "mcp_tool_change" || record["outcome"] != outcome || at(t, record, "target.name") != "echo" || at(t, record, "metadata.extra.change") != `the description of tool "echo" has changed` {
			t.Errorf("%v", record)
		}
	}
}

func TestLimitExceeded(t *testing.T) {
	r, records := recorder(t, Config{})
	r.LimitExceeded("disk", 60, 50)
	for path, want := range map[string]any{
		"type": "limit_exceeded", "outcome": "denied", "source.type": "server", "target.type": "disk",
		"metadata.extra.used_bytes": 60.0, "metadata.extra.limit_bytes": 50.0,
	} {
		if got := at(t, records()[0], path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func TestConnected(t *testing.T) {
	r, records := recorder(t, Config{})
	r.Connected(Connection{Kind: "tcp", Name: "a.example", Address: "192.0.2.1", Port: 443, Allowed: true, Sent: 1, Received: 2})
	r.Connected(Connection{Kind: "dns", Name: "evil.example", Reason: "the name is not allowed"})
	r.Connected(Connection{Kind: "tcp", Address: "192.0.2.1", Port: 1, Allowed: true, Reason: "cannot be reached"})
	for i, want := range []map[string]any{
		{"type": "network_connection", "outcome": "success", "target.name": "a.example", "target.address": "192.0.2.1", "target.port": 443.0, "metadata.extra.sent_bytes": 1.0, "metadata.extra.received_bytes": 2.0, "metadata.extra.reason": nil},
		{"outcome": "denied", "target.type": "dns", "target.name": "evil.example", "metadata.extra.reason": "the name is not allowed"},
		{"outcome": "error", "target.name": nil},
	} {
		for path, want := range want {
			if got := at(t, records()[i], path); got != want {
				t.Errorf("%d: %s is %v, want %v", i, path, got, want)
			}
		}
	}
	for range 10 * connectionBurst {
		r.Connected(Connection{Kind: "dns"})
	}
	if n := len(records()); n > 2*connectionBurst {
		t.Errorf("%d records of a flood", n)
	}
}

func TestEvents_Types(t *testing.T) {
	r, records := recorder(t, Config{EventTypes: []string{"mcp_tool_call"}})
	r.Refused(refusal)
	r.ToolChanged("echo", "", false)
	if got := records(); got != nil {
		t.Errorf("%v", got)
	}
}
