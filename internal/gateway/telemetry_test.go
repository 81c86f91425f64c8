package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/test/otlp"
)

const (
	inTrace     = "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"
	inTraceID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanServer  = otlp.Server
	spanClient  = otlp.Client
	metricsPath = endpoint.PathMetrics
)

// measured makes a Telemetry that samples everything, and adds its stages to a gateway.
func measured(t testing.TB, cfg telemetry.Config) func(*Config) {
	t.Helper()
	all := 1.0
	if cfg.Endpoint != "" {
		cfg.SamplingRate = &all
	}
	tel, err := telemetry.New(cfg, telemetry.Options{Workload: "test", Transport: "stdio", Log: slog.New(slog.DiscardHandler), Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tel.Close)
	return func(c *Config) {
		s := &c.Stages
		s.TelemetryHTTP, s.Telemetry, s.TelemetryServer, s.Metrics = tel.HTTP, tel.Stage, tel.ServerStage, tel.Handler()
	}
}

// Requests of both eras continue the trace of their client, up to the server and the audit.
func TestTelemetry_Traces(t *testing.T) {
	t.Parallel()
	collector := otlp.New()
	var sent []mcp.Meta
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		meta, err := mcp.ReadMeta(x.Request.Params)
		if err != nil {
			return nil, err
		}
		sent = append(sent, meta)
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"content":[]}`)), nil
	}
	var records bytes.Buffer
	log, err := auditlog.Open(auditlog.Options{Out: &records})
	if err != nil {
		t.Fatal(err)
	}
	_, srv := serve(t, b, func(c *Config) {
		measured(t, telemetry.Config{Endpoint: collector.OverHTTP(t)})(c)
		c.Stages.Audit = audit.New(audit.Config{EventTypes: []string{"mcp_tool_call"}}, "test", log).Stage
	}, nil)
	c := newWire(t, srv)
	stateless := newWire(t, srv)
	c.initialize(mcp.V20251125)
	for era, post := range map[string]func() *answer{
		"session": func() *answer { return c.post(req("7", "tools/call", `{"name":"session"}`), inTrace) },
		"stateless": func() *answer {
			return stateless.post(req("7", "tools/call", `{"name":"stateless",`+statelessMeta("")+`}`), statelessHeaders("tools/call", "stateless", inTrace)...)
		},
	} {
		if a := post(); a.status != 200 {
			t.Fatalf("%s: %d %s", era, a.status, a.body)
		}
		outer, inner := collector.Span(t, spanServer, "tools/call "+era), collector.Span(t, spanClient, "tools/call "+era)
		if otlp.Hex(outer.TraceId) != inTraceID || !bytes.Equal(inner.ParentSpanId, outer.SpanId) {
			t.Errorf("%s: trace %x, parent %x of %x", era, outer.TraceId, inner.ParentSpanId, outer.SpanId)
		}
		if attrs := otlp.Attributes(outer.Attributes); (attrs["mcp.session.id"] != "") != (era == "session") || attrs["url.path"] != "/mcp" {
			t.Errorf("%s: %v", era, attrs)
		}
		if want := "00-" + inTraceID + "-" + otlp.Hex(inner.SpanId) + "-01"; sent[len(sent)-1].TraceParent != want {
			t.Errorf("%s: the server received %+v, want %s", era, sent[len(sent)-1], want)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(records.String(), `"trace_id":"`+inTraceID+`"`); n != 2 {
		t.Errorf("the audit has the trace %d times: %s", n, &records)
	}
}

// /metrics needs a token when authentication is configured, and is behind the guard.
func TestTelemetry_MetricsPath(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	_, srv := serve(t, newFakeBackend(), func(c *Config) {
		p.protect(t)(c)
		measured(t, telemetry.Config{Prometheus: true})(c)
	}, nil)
	c := newWire(t, srv)
	good := "Authorization: Bearer " + p.of(t, "ann")
	for _, row := range []struct {
		name, method string
		headers      []string
		status       int
	}{
		{"no token", "GET", nil, 401},
		{"a bad token", "GET", []string{good + "x"}, 401},
		{"another audience", "GET", []string{"Authorization: Bearer " + p.token(t, map[string]any{"aud": "other"})}, 401},
		{"another host", "GET", []string{good, "Host: evil.example"}, 403},
		{"another origin", "GET", []string{good, "Origin: https://evil.example"}, 403},
		{"POST", "POST", []string{good}, 405},
		{"a good token", "GET", []string{good}, 200},
		{"HEAD", "HEAD", []string{good}, 200},
	} {
		if a := c.send(row.method, metricsPath, "", row.headers...); a.status != row.status {
			t.Errorf("%s: %d %s", row.name, a.status, a.body)
		}
	}
	if a := c.send("GET", metricsPath, "", good); !strings.Contains(a.body, `toolhive_mcp_requests_total{mcp_method="",mcp_resource_id="",method="GET",server="test",status="error",status_code="401",transport="stdio"} 3`) {
		t.Errorf("refused requests: %s", a.body)
	}
	_, plain := serve(t, newFakeBackend(), nil, nil)
	if a := newWire(t, plain).send("GET", metricsPath, ""); a.status != 404 {
		t.Errorf("not configured: %d", a.status)
	}
}

// A request whose name is refused, and one that panics, are measured with their errors.
func TestTelemetry_RefusedRequests(t *testing.T) {
	t.Parallel()
	b := newFakeBackend()
	b.do = func(context.Context, *fakeConn, *exchange.Exchange) (*mcp.Message, error) { panic("in a test") }
	_, srv := serve(t, b, measured(t, telemetry.Config{Prometheus: true}), nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	c.post(req("1", "tools/call", `{"name":"a\u0000b"}`))
	c.post(req("2", "tools/call", `{"name":"add"}`))
	body := c.send("GET", metricsPath, "").body
	for _, want := range []string{
		`error_type="-32602"`, `error_type="-32603",gen_ai_operation_name="execute_tool",gen_ai_tool_name="add"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics has no %s: %s", want, body)
		}
	}
}
