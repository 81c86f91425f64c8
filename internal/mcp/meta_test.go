package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadMeta(t *testing.T) {
	prefix := `"` + MetaPrefix
	for _, test := range []struct {
		name, params string
		want         Meta
	}{
		{"no params", ``, Meta{}},
		{"no _meta", `{"name":"x"}`, Meta{}},
		{"null", `{"_meta":null}`, Meta{}},
		{"a session-era token", `{"_meta":{"progressToken":7,"other":1}}`, Meta{ProgressToken: json.RawMessage(`7`)}},
		{"all members", `{"_meta":{` + prefix + `protocolVersion":"2026-07-28",` + prefix + `clientCapabilities":{"roots":{}},` +
			prefix + `clientInfo":{"name":"c"},` + prefix + `logLevel":"info","progressToken":"t"}}`,
			Meta{Versioned: true, Version: "2026-07-28", Capabilities: json.RawMessage(`{"roots":{}}`), ClientInfo: json.RawMessage(`{"name":"c"}`), LogLevel: "info", ProgressToken: json.RawMessage(`"t"`)}},
		{"trace context", `{"_meta":{"traceparent":"00-a-b-01","tracestate":"v=1","baggage":"k=v"}}`, Meta{TraceParent: "00-a-b-01", TraceState: "v=1", Baggage: "k=v"}},
		{"trace context of another type", `{"_meta":{"traceparent":1,"tracestate":{},"baggage":null}}`, Meta{}},
		{"escaped key", `{"_meta":{"progress\u0054oken":7}}`, Meta{ProgressToken: json.RawMessage(`7`)}},
		{"version of another type", `{"_meta":{` + prefix + `protocolVersion":1}}`, Meta{Versioned: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadMeta(json.RawMessage(test.params))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(Meta{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadMeta_Refused(t *testing.T) {
	for _, params := range []string{
		`[]`,
		`[1]`,
		`{"_meta":[]}`,
		`{"_meta":1}`,
		`{"_meta":{"a":1}`,
		`{"_meta":{},"_meta":{}}`,
		`{"_Meta":{}}`,
		`{"_meta":{"progressToken":1,"progressToken":2}}`,
		`{"_meta":{"progressToken":1,"ProgressToken":2}}`,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/protocolVersion":"2025-11-25"}}`,
		`{"_meta":{"progressToken":1,"progress\u0054oken":2}}`,
		`{"_meta":{"ProgressToken":1}}`,
		`{"_meta":{"io.modelcontextprotocol/loglevel":"info"}}`,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion\u0000":"2026-07-28"}}`,
	} {
		if m, err := ReadMeta(json.RawMessage(params)); err == nil {
			t.Errorf("ReadMeta(%s) = %+v, want an error", params, m)
		}
	}
}

func TestMeta_Check(t *testing.T) {
	for params, want := range map[string]string{
		`{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}`:      "",
		`{"_meta":{"io.modelcontextprotocol/logLevel":"loud"}}`:      "none of the log levels",
		`{"_meta":{"io.modelcontextprotocol/logLevel":3}}`:           "must be a string",
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":null}}`: "must be a string",
	} {
		m, err := ReadMeta(json.RawMessage(params))
		if err != nil {
			t.Fatal(err)
		}
		err = m.Check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Check() = %v, want %q", params, err, want)
		}
	}
}
