// Package otlp is a collector of OpenTelemetry for tests: it receives spans and metrics over
// OTLP/HTTP and, by grpc-go, over OTLP/gRPC.
package otlp

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// patience bounds every wait of a test.
const patience = time.Minute

// Kinds of spans.
const (
	Server = tracev1.Span_SPAN_KIND_SERVER
	Client = tracev1.Span_SPAN_KIND_CLIENT
)

// Collector keeps what it receives.
type Collector struct {
	tracepb.UnimplementedTraceServiceServer
	metrics collectorOfMetrics
	// Status is that of an HTTP response; nil is always 200.
	Status func() int

	// The mutex guards the rest.
	sync.Mutex
	received
}

// received is what a collector has received so far.
type received struct {
	// Spans are all spans, Metrics the metrics by name, each as often as it was received.
	Spans   []*tracev1.Span
	Metrics map[string][]*metricsv1.Metric
	// Resource is the resource of the last spans.
	Resource map[string]string
	// Keys are the values of the header Api-Key, Paths the number of HTTP requests by path.
	Keys  []string
	Paths map[string]int
}

type collectorOfMetrics struct {
	metricspb.UnimplementedMetricsServiceServer
	c *Collector
}

// New makes a collector. It receives nothing before it is served.
func New() *Collector {
	c := &Collector{received: received{Metrics: map[string][]*metricsv1.Metric{}, Paths: map[string]int{}}}
	c.metrics.c = c
	return c
}

// Export implements the service of traces.
func (c *Collector) Export(ctx context.Context, r *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	c.Lock()
	defer c.Unlock()
	c.note(ctx)
	for _, resource := range r.ResourceSpans {
		c.Resource = Attributes(resource.Resource.Attributes)
		for _, scoped := range resource.ScopeSpans {
			c.Spans = append(c.Spans, scoped.Spans...)
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// Export implements the service of metrics.
func (m *collectorOfMetrics) Export(ctx context.Context, r *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	m.c.Lock()
	defer m.c.Unlock()
	m.c.note(ctx)
	for _, resource := range r.ResourceMetrics {
		for _, scoped := range resource.ScopeMetrics {
			for _, metric := range scoped.Metrics {
				m.c.Metrics[metric.Name] = append(m.c.Metrics[metric.Name], metric)
			}
		}
	}
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

func (c *Collector) note(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.Keys = append(c.Keys, md.Get("api-key")...)
}

// ServeHTTP implements OTLP/HTTP.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.Lock()
	c.Paths[r.URL.Path]++
	c.Unlock()
	if c.Status != nil {
		if status := c.Status(); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	content, err := io.ReadAll(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	ctx := metadata.NewIncomingContext(r.Context(), metadata.Pairs("api-key", r.Header.Get("Api-Key")))
	var answer proto.Message
	if strings.HasSuffix(r.URL.Path, "/v1/traces") {
		var export tracepb.ExportTraceServiceRequest
		if err = proto.Unmarshal(content, &export); err == nil {
			answer, err = c.Export(ctx, &export)
		}
	} else {
		var export metricspb.ExportMetricsServiceRequest
		if err = proto.Unmarshal(content, &export); err == nil {
			answer, err = c.metrics.Export(ctx, &export)
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	out, _ := proto.Marshal(answer)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(out)
}

// OverHTTP serves OTLP/HTTP and returns its URL.
func (c *Collector) OverHTTP(t testing.TB) string {
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return server.URL
}

// OverTLS serves OTLP/HTTP over TLS. The file has its authority.
func (c *Collector) OverTLS(t testing.TB) (url, caFile string) {
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	return server.URL, WriteAuthority(t, server)
}

// WriteAuthority writes the certificate of a server to a file, as its own authority.
func WriteAuthority(t testing.TB, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// OverGRPC serves OTLP/gRPC by grpc-go and returns its address.
func (c *Collector) OverGRPC(t testing.TB, certificate *tls.Certificate) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var opts []grpc.ServerOption
	if certificate != nil {
		opts = append(opts, grpc.Creds(credentials.NewServerTLSFromCert(certificate)))
	}
	server := grpc.NewServer(opts...)
	tracepb.RegisterTraceServiceServer(server, c)
	metricspb.RegisterMetricsServiceServer(server, &c.metrics)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// Until waits for a condition on what was received.
func (c *Collector) Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c.Lock()
		ok := condition()
		c.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not received in %s: %s", patience, what)
		}
	}
}

// Span waits for a span of that kind and name.
func (c *Collector) Span(t testing.TB, kind tracev1.Span_SpanKind, name string) *tracev1.Span {
	t.Helper()
	var found *tracev1.Span
	c.Until(t, kind.String()+" "+name, func() bool {
		for _, span := range c.Spans {
			if span.Kind == kind && span.Name == name {
				found = span
			}
		}
		return found != nil
	})
	return found
}

// Attributes returns the values of attributes that are texts, and "int" or "double" for
// numbers.
func Attributes(kvs []*commonv1.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range kvs {
		switch v := kv.Value.Value.(type) {
		case *commonv1.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			out[kv.Key] = "int"
		case *commonv1.AnyValue_DoubleValue:
			out[kv.Key] = "double"
		}
	}
	return out
}

// Hex is an id as W3C Trace Context writes it.
func Hex(id []byte) string { return hex.EncodeToString(id) }

// Lines describes what was received, a line for each thing:
//
//	span SERVER tools/call echo trace=... parent=... key=value ... | resource key=value ...
//	metric mcp.server.operation.duration
//	key VALUE OF THE HEADER
func (c *Collector) Lines() string {
	c.Lock()
	defer c.Unlock()
	var b strings.Builder
	pairs := func(all map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, " %s=%s", key, all[key])
		}
	}
	for _, span := range c.Spans {
		kind := strings.TrimPrefix(span.Kind.String(), "SPAN_KIND_")
		fmt.Fprintf(&b, "span %s %s trace=%s parent=%s", kind, span.Name, Hex(span.TraceId), Hex(span.ParentSpanId))
		pairs(Attributes(span.Attributes))
		b.WriteString(" | resource")
		pairs(c.Resource)
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
		fmt.Fprintf(&b, "metric %s\n", name)
	}
	for _, key := range c.Keys {
		fmt.Fprintf(&b, "key %s\n", key)
	}
	return b.String()
}
