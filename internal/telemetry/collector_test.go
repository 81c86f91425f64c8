package telemetry

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// patience bounds every wait of a test; it is never waited out when all is well.
const patience = time.Minute

// collector receives OTLP, over gRPC and over HTTP.
type collector struct {
	tracepb.UnimplementedTraceServiceServer
	metrics collectorOfMetrics
	status  func() int // of an HTTP response; nil is 200

	mu       sync.Mutex
	spans    []*tracev1.Span
	resource map[string]string
	names    map[string][]*metricsv1.Metric
	headers  []string // of the field Api-Key
	paths    map[string]int
}

type collectorOfMetrics struct {
	metricspb.UnimplementedMetricsServiceServer
	c *collector
}

func newCollector() *collector {
	c := &collector{names: map[string][]*metricsv1.Metric{}, paths: map[string]int{}}
	c.metrics.c = c
	return c
}

// Export implements the service of traces.
func (c *collector) Export(ctx context.Context, r *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(ctx)
	for _, resource := range r.ResourceSpans {
		c.resource = attributes(resource.Resource.Attributes)
		for _, scoped := range resource.ScopeSpans {
			c.spans = append(c.spans, scoped.Spans...)
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// Export implements the service of metrics.
func (m *collectorOfMetrics) Export(ctx context.Context, r *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.note(ctx)
	for _, resource := range r.ResourceMetrics {
		for _, scoped := range resource.ScopeMetrics {
			for _, metric := range scoped.Metrics {
				m.c.names[metric.Name] = append(m.c.names[metric.Name], metric)
			}
		}
	}
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

func (c *collector) note(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.headers = append(c.headers, md.Get("api-key")...)
}

// ServeHTTP implements OTLP/HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.paths[r.URL.Path]++
	c.mu.Unlock()
	if c.status != nil {
		if status := c.status(); status != http.StatusOK {
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

// overHTTP serves OTLP/HTTP and returns its URL.
func (c *collector) overHTTP(t *testing.T) string {
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return server.URL
}

// overTLS serves OTLP/HTTP over TLS. The file has its authority.
func (c *collector) overTLS(t *testing.T) (url, caFile string) {
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	return server.URL, writeCertificate(t, server)
}

func writeCertificate(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// overGRPC serves OTLP/gRPC by grpc-go and returns its address.
func (c *collector) overGRPC(t *testing.T, certificate *tls.Certificate) string {
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

// until waits for a condition on what was received.
func (c *collector) until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		ok := condition()
		c.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not received in %s: %s", patience, what)
		}
	}
}

// span waits for a span of that kind and name.
func (c *collector) span(t *testing.T, kind tracev1.Span_SpanKind, name string) *tracev1.Span {
	t.Helper()
	var found *tracev1.Span
	c.until(t, kind.String()+" "+name, func() bool {
		for _, span := range c.spans {
			if span.Kind == kind && span.Name == name {
				found = span
			}
		}
		return found != nil
	})
	return found
}

func attributes(kvs []*commonv1.KeyValue) map[string]string {
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

func hexOf(id []byte) string { return hex.EncodeToString(id) }
