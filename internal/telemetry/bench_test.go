package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/test/otlp"
)

// BenchmarkStage is the cost of telemetry for one call, beside a call without it.
func BenchmarkStage(b *testing.B) {
	collector := otlp.New()
	collector.Status = func() int { return http.StatusNotFound } // nothing is kept
	endpoint := collector.OverHTTP(b)
	for _, bench := range []struct {
		name string
		cfg  *Config
	}{
		{"none", nil},
		{"metrics", &Config{Prometheus: true}},
		{"unsampled", &Config{Endpoint: endpoint, Metrics: off(), SamplingRate: rate(0)}},
		{"sampled", &Config{Endpoint: endpoint, Metrics: off(), SamplingRate: rate(1)}},
		{"default", &Config{Endpoint: endpoint, Prometheus: true, SamplingRate: rate(DefaultSamplingRate)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			result := mcp.NewResult(mcp.IntID(7), json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`))
			handler := func(context.Context, *exchange.Exchange) (*mcp.Message, error) { return result, nil }
			wrap := func(next http.Handler) http.Handler { return next }
			if bench.cfg != nil {
				tel := start(b, *bench.cfg, Options{Interval: 5 * time.Second})
				handler = tel.Stage(tel.ServerStage(handler))
				wrap = tel.HTTP
			}
			x := request(mcp.MethodToolsCall, echo("hello"))
			served := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = handler(r.Context(), x)
				w.WriteHeader(http.StatusOK)
			}))
			r := post(http.Header{"User-Agent": {"bench"}})
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				served.ServeHTTP(w, r)
			}
		})
	}
}

type discard struct {
	httptest.ResponseRecorder
	header http.Header
}

func (d *discard) Header() http.Header       { return d.header }
func (d *discard) Write([]byte) (int, error) { return 0, nil }
func (d *discard) WriteHeader(int)           {}
