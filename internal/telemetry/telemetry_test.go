package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/test/otlp"
)

// patience bounds every wait of a test; it is never waited out when all is well.
const patience = time.Minute

const (
	server = tracev1.Span_SPAN_KIND_SERVER
	client = tracev1.Span_SPAN_KIND_CLIENT

	traceA = "0af7651916cd43dd8448eb211c80319c"
	traceB = "4bf92f3577b34da6a3ce929d0e0e4736"
)

// log is a log that may be written concurrently.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func rate(r float64) *float64 { return &r }

func off() *bool { return new(bool) }

// start starts a Telemetry that samples all traces and exports at once.
func start(t testing.TB, cfg Config, opt Options) *Telemetry {
	t.Helper()
	if cfg.SamplingRate == nil {
		cfg.SamplingRate = rate(1)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	opt.Workload, opt.Version = "files", "1.2.3"
	if opt.Transport == "" {
		opt.Transport = "stdio"
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Interval == 0 {
		opt.Interval = 10 * time.Millisecond
	}
	tel, err := New(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tel.Close)
	return tel
}

func request(method, params string) *exchange.Exchange {
	m := &mcp.Message{ID: mcp.IntID(7), Method: method}
	if params != "" {
		m.Params = json.RawMessage(params)
	}
	meta, err := mcp.ReadMeta(m.Params)
	if err != nil {
		panic(err) // a test's own
	}
	return &exchange.Exchange{
		Client: &exchange.Client{Version: mcp.V20251125, Info: json.RawMessage(`{"name":"inspector"}`)}, Request: m, Meta: meta,
	}
}

func echo(text string) string {
	return `{"name":"echo","arguments":{"text":"` + text + `"}}`
}

func respond(result string) exchange.Handler {
	return func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		return mcp.NewResult(x.Request.ID, json.RawMessage(result)), nil
	}
}

// through sends a POST with the headers through all of tel, to last.
func through(t *testing.T, tel *Telemetry, header http.Header, x *exchange.Exchange, last exchange.Handler) {
	t.Helper()
	handler := tel.Stage(tel.ServerStage(last))
	tel.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = handler(r.Context(), x)
		w.WriteHeader(http.StatusOK)
	})).ServeHTTP(httptest.NewRecorder(), post(header))
}

func post(header http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:9000/mcp?session_id=s3cret-session", strings.NewReader("{}"))
	for name, values := range header {
		r.Header[name] = values
	}
	return r
}

func TestExport(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	authority := otlp.WriteAuthority(t, certified)
	for _, test := range []struct {
		name  string
		start func(t *testing.T, c *otlp.Collector) (cfg Config, caFile string)
	}{
		{"HTTP", func(t *testing.T, c *otlp.Collector) (Config, string) { return Config{Endpoint: c.OverHTTP(t)}, "" }},
		{"HTTP with a path", func(t *testing.T, c *otlp.Collector) (Config, string) {
			return Config{Endpoint: c.OverHTTP(t) + "/otlp/"}, ""
		}},
		{"HTTP over TLS", func(t *testing.T, c *otlp.Collector) (Config, string) {
			url, file := c.OverTLS(t)
			return Config{Endpoint: url}, file
		}},
		{"gRPC", func(t *testing.T, c *otlp.Collector) (Config, string) {
			return Config{Endpoint: "grpc://" + c.OverGRPC(t, nil), Insecure: true}, ""
		}},
		{"gRPC over TLS", func(t *testing.T, c *otlp.Collector) (Config, string) {
			return Config{Endpoint: c.OverGRPC(t, &certified.TLS.Certificates[0]), Protocol: GRPC}, authority
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := otlp.New()
			cfg, caFile := test.start(t, c)
			cfg.Headers, cfg.Attributes, cfg.EnvVars = map[string]string{"Api-Key": "workload/files/k"}, map[string]string{"team": "blue"}, []string{"STAGE", "UNSET"}
			opt := Options{
				Secret: func(ref string) (string, error) { return "value of " + ref, nil },
				Env:    func(name string) string { return map[string]string{"STAGE": "test"}[name] },
			}
			if caFile != "" {
				opt.CAFiles = []string{caFile}
			}
			var logged log
			opt.Log = slog.New(slog.NewTextHandler(&logged, nil))
			tel := start(t, cfg, opt)
			through(t, tel, http.Header{}, request(mcp.MethodToolsCall, echo("hello")), respond(`{"content":[]}`))
			span := c.Span(t, server, "tools/call echo")
			if got := otlp.Attributes(span.Attributes); got["environment.STAGE"] != "test" || got["gen_ai.tool.name"] != "echo" {
				t.Errorf("attributes %v", got)
			}
			c.Until(t, "metrics", func() bool { return len(c.Metrics["mcp.server.operation.duration"]) > 0 })
			c.Lock()
			defer c.Unlock()
			if c.Resource["service.name"] != "thv-files" || c.Resource["service.version"] != "1.2.3" || c.Resource["team"] != "blue" {
				t.Errorf("resource %v", c.Resource)
			}
			if len(c.Keys) == 0 || c.Keys[0] != "value of workload/files/k" {
				t.Errorf("headers %q", c.Keys)
			}
			if logged.text.Len() > 0 {
				t.Errorf("log: %s", &logged.text)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cfg  Config
		want string // a URL, with "grpc " before it; "" is an error
	}{
		{Config{Endpoint: "https://c.example"}, "https://c.example"},
		{Config{Endpoint: "https://c.example/v2/otlp/"}, "https://c.example/v2/otlp"},
		{Config{Endpoint: "https://c.example:4317"}, "grpc https://c.example:4317"},
		{Config{Endpoint: "https://c.example:4317/otlp"}, "https://c.example:4317/otlp"},
		{Config{Endpoint: "https://c.example:4317", Protocol: HTTP}, "https://c.example:4317"},
		{Config{Endpoint: "https://c.example", Protocol: GRPC}, "grpc https://c.example"},
		{Config{Endpoint: "https://c.example/otlp", Protocol: GRPC}, ""},
		{Config{Endpoint: "grpc://c.example"}, "grpc https://c.example:4317"},
		{Config{Endpoint: "grpc://c.example", Insecure: true}, "grpc http://c.example:4317"},
		{Config{Endpoint: "c.example"}, "https://c.example:4318"},
		{Config{Endpoint: "c.example", Protocol: GRPC}, "grpc https://c.example:4317"},
		{Config{Endpoint: "c.example:4317", Insecure: true}, "grpc http://c.example:4317"},
		{Config{Endpoint: "c.example:9999"}, "https://c.example:9999"},
		{Config{Endpoint: "[::1]:4318"}, "https://[::1]:4318"},
		{Config{Endpoint: "https://c.example", Insecure: true}, "http://c.example"},
		{Config{Endpoint: "http://localhost:4318"}, "http://localhost:4318"},
		{Config{Endpoint: "http://c.example:4318"}, ""},
		{Config{Endpoint: "http://c.example:4318", Insecure: true}, "http://c.example:4318"},
		{Config{Endpoint: "https://u:p@c.example"}, ""},
		{Config{Endpoint: "https://c.example?key=1"}, ""},
		{Config{Endpoint: "ftp://c.example"}, ""},
		{Config{Endpoint: "c.example:99999"}, ""},
		{Config{Endpoint: "://"}, ""},
	} {
		target, err := test.cfg.Target()
		got := target.String()
		if target.GRPC {
			got = "grpc " + got
		}
		if err != nil {
			got = ""
			if strings.Contains(err.Error(), "u:p") {
				t.Errorf("the error repeats the password: %v", err)
			}
		}
		if got != test.want {
			t.Errorf("%+v: %q, %v; want %q", test.cfg, got, err, test.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"nothing to send to":          {ServiceName: "x"},
		"choose grpc or":              {Endpoint: "c:1", Protocol: "http/json"},
		"both disabled":               {Endpoint: "c:1", Tracing: off(), Metrics: off()},
		"sampling rate 1.5":           {Endpoint: "c:1", SamplingRate: rate(1.5)},
		"sampling rate -1":            {Endpoint: "c:1", SamplingRate: rate(-1)},
		`header "Content-Type"`:       {Endpoint: "c:1", Headers: map[string]string{"Content-Type": "r"}},
		`header "a b"`:                {Endpoint: "c:1", Headers: map[string]string{"a b": "r"}},
		"headers are for an endpoint": {Prometheus: true, Headers: map[string]string{"a": "r"}},
		`attribute "a\n"`:             {Endpoint: "c:1", Attributes: map[string]string{"a\n": "r"}},
		"the service name":            {Endpoint: "c:1", ServiceName: strings.Repeat("x", 300)},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", cfg, err, want)
		}
	}
}

func TestStage_Span(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	tel := start(t, Config{Endpoint: c.OverHTTP(t)}, Options{})
	header := http.Header{"User-Agent": {"curl"}, mcp.HeaderSessionID: {"s3cret-session"}}
	through(t, tel, header, request(mcp.MethodToolsCall, echo("s3cret-argument")), respond(`{"content":[]}`))
	span := c.Span(t, server, "tools/call echo")
	got := otlp.Attributes(span.Attributes)
	for key, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool", "jsonrpc.request.id": "7",
		"mcp.protocol.version": "2025-11-25", "network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1",
		"mcp.client.name": "inspector", "http.request.method": "POST", "url.path": "/mcp", "user_agent.original": "curl",
		"client.address": "192.0.2.1", "client.port": "int", "server.address": "localhost", "server.port": "int",
		"mcp.method": "tools/call", "mcp.tool.name": "echo", "mcp.transport": "stdio", "mcp.request.id": "7", "rpc.system": "jsonrpc",
		"http.url": "http://localhost:9000/mcp", "http.method": "POST", "http.status_code": "int", "http.duration_ms": "double",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	behindProxy := start(t, Config{Endpoint: c.OverHTTP(t)}, Options{Source: func(*http.Request) string { return "198.51.100.7" }})
	through(t, behindProxy, nil, request(mcp.MethodToolsCall, `{"name":"forwarded"}`), respond(`{"content":[]}`))
	forwarded := otlp.Attributes(c.Span(t, server, "tools/call forwarded").Attributes)
	if port, present := forwarded["client.port"]; present || forwarded["client.address"] != "198.51.100.7" {
		t.Errorf("the client is %q, port %q", forwarded["client.address"], port)
	}
	if len(got["mcp.session.id"]) != 32 {
		t.Errorf("mcp.session.id is %q, want a hash", got["mcp.session.id"])
	}
	if text := span.String(); strings.Contains(text, "s3cret") {
		t.Errorf("the span has the session or an argument: %s", text)
	}
	if got["error.type"] != "" || span.Status.GetCode() != tracev1.Status_STATUS_CODE_UNSET {
		t.Errorf("a success has the status %v", span.Status)
	}
	inner := otlp.Attributes(c.Span(t, client, "tools/call echo").Attributes)
	if inner["network.transport"] != "pipe" || inner["gen_ai.tool.name"] != "echo" {
		t.Errorf("span of the request to the server: %v", inner)
	}
}

func TestStage_LegacyAttributesOff(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	tel := start(t, Config{Endpoint: c.OverHTTP(t), LegacyAttributes: off()}, Options{})
	through(t, tel, nil, request(mcp.MethodResourcesRead, `{"uri":"https://u:p@h.example/a?token=t#f"}`), respond(`{}`))
	got := otlp.Attributes(c.Span(t, server, "resources/read").Attributes)
	if got["mcp.resource.uri"] != "https://h.example/a" {
		t.Errorf("mcp.resource.uri is %q", got["mcp.resource.uri"])
	}
	for _, key := range []string{"mcp.method", "http.method", "rpc.system", "mcp.resource.id", "mcp.transport"} {
		if got[key] != "" {
			t.Errorf("%s is there", key)
		}
	}
}

func TestStage_Errors(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	tel := start(t, Config{Endpoint: c.OverHTTP(t)}, Options{})
	fail := func(err error) exchange.Handler {
		return func(context.Context, *exchange.Exchange) (*mcp.Message, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		last         exchange.Handler
		errType, rpc string
	}{
		"tool":    {respond(`{"isError":true,"content":[]}`), "tool_error", ""},
		"denied":  {fail(exchange.Forbid("s3cret")), "403", "403"},
		"gone":    {fail(errors.New("s3cret")), "-32000", "-32000"},
		"invents": {fail(&mcp.Error{Code: 123456, Message: "s3cret"}), "_OTHER", "123456"},
		"refuses": {func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
			return mcp.NewError(x.Request.ID, mcp.CodeInvalidParams, "s3cret"), nil
		}, "-32602", "-32602"},
	} {
		x := request(mcp.MethodToolsCall, `{"name":"`+name+`"}`)
		through(t, tel, nil, x, test.last)
		span := c.Span(t, server, "tools/call "+name)
		got := otlp.Attributes(span.Attributes)
		if got["error.type"] != test.errType || got["rpc.response.status_code"] != test.rpc || span.Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: error.type %q, code %q, status %v", name, got["error.type"], got["rpc.response.status_code"], span.Status)
		}
		if strings.Contains(span.String(), "s3cret") {
			t.Errorf("%s: the span has the message of the error", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = tel.Stage(fail(context.Canceled))(ctx, request(mcp.MethodToolsCall, `{"name":"cancelled"}`))
	if got := otlp.Attributes(c.Span(t, server, "tools/call cancelled").Attributes); got["error.type"] != "cancelled" {
		t.Errorf("error.type %q", got["error.type"])
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = tel.Stage(func(context.Context, *exchange.Exchange) (*mcp.Message, error) { panic("x") })(t.Context(), request(mcp.MethodToolsCall, `{"name":"panics"}`))
	}()
	if got := otlp.Attributes(c.Span(t, server, "tools/call panics").Attributes); got["error.type"] != "-32603" {
		t.Errorf("error.type %q", got["error.type"])
	}
}

// The context of _meta prevails over that of the headers, and goes to the server.
func TestPropagation(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	tel := start(t, Config{Endpoint: c.OverHTTP(t)}, Options{})
	parent := func(trace string) string { return "00-" + trace + "-b7ad6b7169203331-01" }
	header := http.Header{"Traceparent": {parent(traceB)}, "Tracestate": {"h=1"}, "Baggage": {"from=header"}}
	for _, test := range []struct {
		name, meta, trace, state, baggage string
		links                             int
	}{
		{"both", `,"_meta":{"progressToken":1,"traceparent":"` + parent(traceA) + `","tracestate":"m=1","baggage":"from=meta"}`, traceA, "m=1", "from=meta", 1},
		{"header", `,"_meta":{"progressToken":1}`, traceB, "h=1", "from=header", 0},
		{"nometa", ``, traceB, "h=1", "from=header", 0},
		{"broken", `,"_meta":{"traceparent":7,"tracestate":"x","baggage":";;"}`, traceB, "h=1", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := request(mcp.MethodToolsCall, `{"name":"`+test.name+`"`+test.meta+`}`)
			var sent exchange.Exchange
			var headers http.Header
			through(t, tel, header, x, func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
				sent = *x
				r := httptest.NewRequest(http.MethodPost, "http://server/mcp", nil).WithContext(ctx)
				_, _ = Propagate(roundTripper(func(r *http.Request) { headers = r.Header })).RoundTrip(r)
				return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
			})
			outer, inner := c.Span(t, server, "tools/call "+test.name), c.Span(t, client, "tools/call "+test.name)
			if otlp.Hex(outer.TraceId) != test.trace || otlp.Hex(outer.ParentSpanId) != "b7ad6b7169203331" || len(outer.Links) != test.links {
				t.Errorf("span of trace %x, parent %x, %d links", outer.TraceId, outer.ParentSpanId, len(outer.Links))
			}
			if !bytes.Equal(inner.ParentSpanId, outer.SpanId) {
				t.Errorf("the inner span's parent is %x, want %x", inner.ParentSpanId, outer.SpanId)
			}
			want := "00-" + test.trace + "-" + otlp.Hex(inner.SpanId) + "-01"
			meta, err := mcp.ReadMeta(sent.Request.Params)
			if err != nil {
				t.Fatalf("%v: %s", err, sent.Request.Params)
			}
			if meta.TraceParent != want || meta.TraceState != test.state || meta.Baggage != test.baggage || sent.Meta.TraceParent != want {
				t.Errorf("sent %s and %+v, want %s", sent.Request.Params, sent.Meta, want)
			}
			if headers.Get("Traceparent") != want || headers.Get("Tracestate") != test.state || headers.Get("Baggage") != test.baggage {
				t.Errorf("headers %v", headers)
			}
			if sent.TraceID != test.trace || x.TraceID != "" {
				t.Errorf("trace id %q, and of the original %q", sent.TraceID, x.TraceID)
			}
			if strings.Contains(test.meta, "progressToken") != strings.Contains(string(sent.Request.Params), `"progressToken":1`) {
				t.Errorf("params %s", sent.Request.Params)
			}
		})
	}
}

type roundTripper func(*http.Request)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, errors.New("not sent")
}

func TestPropagation_ParamsThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	tel := start(t, Config{Endpoint: c.OverHTTP(t)}, Options{})
	for _, params := range []string{``, `{}`, `{"_meta":null}`, `[1]`} {
		x := &exchange.Exchange{Client: &exchange.Client{}, Request: &mcp.Message{ID: mcp.IntID(1), Method: "x/y"}}
		if params != "" {
			x.Request.Params = json.RawMessage(params)
		}
		var sent string
		_, _ = tel.Stage(tel.ServerStage(func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
			sent = string(x.Request.Params)
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
		}))(t.Context(), x)
		if params == `[1]` {
			if sent != params {
				t.Errorf("%s was sent as %s", params, sent)
			}
		} else if m, err := mcp.ReadMeta(json.RawMessage(sent)); err != nil || m.TraceParent == "" {
			t.Errorf("%s was sent as %s", params, sent)
		}
	}
}

func TestSampling(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	tel := start(t, Config{Endpoint: c.OverHTTP(t), SamplingRate: rate(0)}, Options{})
	call := func(name, flags string) (parent string) {
		meta := ""
		if flags != "" {
			meta = `,"_meta":{"traceparent":"00-` + traceA + `-b7ad6b7169203331-` + flags + `"}`
		}
		through(t, tel, nil, request(mcp.MethodToolsCall, `{"name":"`+name+`"`+meta+`}`), func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
			parent = x.Meta.TraceParent
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
		})
		return parent
	}
	for name, flags := range map[string]string{"root": "", "unsampled": "00"} {
		if parent := call(name, flags); !strings.HasSuffix(parent, "-00") {
			t.Errorf("%s: traceparent %q is sampled", name, parent)
		}
	}
	if parent := call("sampled", "01"); !strings.HasSuffix(parent, "-01") {
		t.Errorf("traceparent %q is not sampled", parent)
	}
	c.Span(t, server, "tools/call sampled")
	c.Lock()
	defer c.Unlock()
	if len(c.Spans) > 2 {
		t.Errorf("%d spans were sent, want those of one request", len(c.Spans))
	}
}

// scrape returns the text of /metrics.
func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Prometheus: true}, Options{})
	tel.SetSessions(func() int { return 3 })
	params := echo("hello")
	var sent string
	through(t, tel, nil, request(mcp.MethodToolsCall, params), func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		sent = string(x.Request.Params)
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
	})
	if sent != params {
		t.Errorf("without tracing, %s was sent", sent)
	}
	through(t, tel, nil, request("hostile/"+strings.Repeat("x", 1000), ``), respond(`{}`))
	tel.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })).ServeHTTP(httptest.NewRecorder(), post(nil))
	text := scrape(t, tel)
	for _, want := range []string{
		`mcp_server_operation_duration_seconds_bucket{gen_ai_operation_name="execute_tool",gen_ai_tool_name="echo",mcp_method_name="tools/call",mcp_protocol_version="2025-11-25",network_protocol_name="http",network_transport="tcp",le="0.01"} 1`,
		`mcp_server_operation_duration_seconds_bucket{mcp_method_name="_OTHER",mcp_protocol_version="2025-11-25",network_protocol_name="http",network_transport="tcp",le="300"} 1`,
		`toolhive_mcp_requests_total{mcp_method="tools/call",mcp_resource_id="echo",method="POST",server="files",status="success",status_code="200",transport="stdio"} 1`,
		`toolhive_mcp_requests_total{mcp_method="",mcp_resource_id="",method="POST",server="files",status="error",status_code="401",transport="stdio"} 1`,
		`toolhive_mcp_tool_calls_total{server="files",status="success",tool="echo"} 1`,
		`toolhive_mcp_request_duration_seconds_count{`, `mcp_server_active_sessions 3`, `target_info{service_name="thv-files"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestMetrics_ActiveConnections(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Prometheus: true}, Options{})
	handler := tel.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		if text := scrape(t, tel); !strings.Contains(text, `toolhive_mcp_active_connections{connection_type="sse",server="files",transport="stdio"} 1`) {
			t.Errorf("while the stream is open: %s", text)
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/mcp", nil))
	if text := scrape(t, tel); !strings.Contains(text, `connection_type="sse",server="files",transport="stdio"} 0`) {
		t.Errorf("after its end: %s", text)
	}
}

// A client can invent methods, names of tools and versions; a server can invent errors.
func TestMetrics_BoundedLabels(t *testing.T) {
	t.Parallel()
	tel := start(t, Config{Prometheus: true}, Options{})
	handler := tel.Stage(func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		name, _, _ := mcp.LookupString(x.Request.Params, "name")
		if strings.HasPrefix(name, "real") {
			return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
		}
		return nil, &mcp.Error{Code: len(name) * 1000, Message: "no such tool"}
	})
	for i := range 3000 {
		x := request(mcp.MethodToolsCall, fmt.Sprintf(`{"name":"invented-%d"}`, i))
		_, _ = handler(t.Context(), x)
		x = request(fmt.Sprintf("method/%d", i), ``)
		x.Client.Version = mcp.Version(fmt.Sprint(i))
		_, _ = handler(t.Context(), x)
	}
	for i := range 3000 {
		_, _ = handler(t.Context(), request(mcp.MethodToolsCall, fmt.Sprintf(`{"name":"real-%d"}`, i)))
	}
	text := scrape(t, tel)
	if series := strings.Count(text, "toolhive_mcp_tool_calls_total{"); series > maxProven+maxUnproven+2 {
		t.Errorf("%d series of tools", series)
	}
	for _, want := range []string{`tool="real-0"`, `tool="real-499"`, `tool="_OTHER"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no series has %s", want)
		}
	}
	if strings.Contains(text, `tool="invented-2999"`) || strings.Contains(text, `"method/`) {
		t.Error("an invented name or method is a label")
	}
}

// A collector that is not there is logged once, and once when it is back. Requests do not
// wait for it.
func TestExport_CollectorIsAway(t *testing.T) {
	t.Parallel()
	c := otlp.New()
	var mu sync.Mutex
	status := http.StatusServiceUnavailable
	c.Status = func() int {
		mu.Lock()
		defer mu.Unlock()
		return status
	}
	var logged log
	tel := start(t, Config{Endpoint: c.OverHTTP(t), Headers: map[string]string{"Api-Key": "r"}}, Options{
		Log: slog.New(slog.NewTextHandler(&logged, nil)), Secret: func(string) (string, error) { return "s3cret", nil },
	})
	call := func() { through(t, tel, nil, request(mcp.MethodToolsCall, echo("x")), respond(`{}`)) }
	call()
	c.Until(t, "attempts", func() bool { return c.Paths["/v1/traces"] > 1 && c.Paths["/v1/metrics"] > 1 })
	began := time.Now()
	for range 5000 { // more than the SDK's queue holds
		call()
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("5000 calls took %s", took)
	}
	if n := logged.count("telemetry cannot be sent"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	c.Until(t, "spans", func() bool { return len(c.Spans) > 0 })
	for deadline := time.Now().Add(patience); logged.count("telemetry is sent again") == 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if again := logged.count("telemetry is sent again"); again != 1 || logged.count("telemetry cannot be sent") != 1 {
		t.Errorf("log: %s", &logged.text)
	}
	if logged.count("s3cret") > 0 {
		t.Error("the log has a header's value")
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("sends what is left", func(t *testing.T) {
		t.Parallel()
		c := otlp.New()
		tel := start(t, Config{Endpoint: c.OverHTTP(t)}, Options{Interval: time.Hour})
		through(t, tel, nil, request(mcp.MethodToolsCall, echo("x")), respond(`{}`))
		tel.Close()
		c.Lock()
		defer c.Unlock()
		if len(c.Spans) != 2 || len(c.Metrics) == 0 {
			t.Errorf("%d spans and %d metrics were sent", len(c.Spans), len(c.Metrics))
		}
	})
	t.Run("is bounded", func(t *testing.T) {
		t.Parallel()
		hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		defer hangs.Close()
		tel := start(t, Config{Endpoint: hangs.URL}, Options{Interval: time.Hour})
		through(t, tel, nil, request(mcp.MethodToolsCall, echo("x")), respond(`{}`))
		began := time.Now()
		tel.Close()
		if took := time.Since(began); took > flushTime+5*time.Second {
			t.Errorf("Close took %s", took)
		}
	})
}

func TestNew_SecretIsMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Endpoint: "c:1", Headers: map[string]string{"Api-Key": "r"}}, Options{
		Secret: func(string) (string, error) { return "", errors.New("no such secret") }, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "header Api-Key: no such secret") {
		t.Error(err)
	}
}
