package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

const (
	exportTimeout = 10 * time.Second // of one export, with its attempts
	firstRetry    = time.Second
	lastRetry     = 5 * time.Second
)

// exporter sends telemetry to one target. A failure is logged when it begins and when it is
// over; it is never an error of the SDK, which would log it each time.
type exporter struct {
	target  Target
	headers map[string]string
	client  netguard.Options
	log     *slog.Logger

	mu sync.Mutex
	// failing are the signals that could not be sent at the last attempt.
	failing map[string]bool
}

// Names of the signals, which are the ends of their paths too (OTLP specification, OTLP/HTTP
// Request).
const (
	traces  = "traces"
	metrics = "metrics"
)

// http makes the client for a signal.
func (e *exporter) http(signal string) (*http.Client, error) {
	opt := e.client
	opt.Timeout, opt.HTTP2 = exportTimeout, e.target.GRPC
	client, err := netguard.Client(opt)
	if err != nil {
		return nil, err
	}
	if e.target.GRPC {
		client.Transport = &overGRPC{next: client.Transport}
	}
	client.Transport = &attempts{exporter: e, signal: signal, next: client.Transport}
	return client, nil
}

func (e *exporter) url(signal string) string { return e.target.String() + "/v1/" + signal }

// traces makes the exporter of spans.
func (e *exporter) traces(ctx context.Context) (sdktrace.SpanExporter, error) {
	client, err := e.http(traces)
	if err != nil {
		return nil, err
	}
	compression := otlptracehttp.GzipCompression
	if e.target.GRPC {
		compression = otlptracehttp.NoCompression
	}
	next, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(e.url(traces)), otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithHeaders(e.headers), otlptracehttp.WithCompression(compression), otlptracehttp.WithTimeout(exportTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: exportTimeout}))
	return &quietSpans{next, e.log}, err
}

// metrics makes the exporter of metrics.
func (e *exporter) metrics(ctx context.Context) (sdkmetric.Exporter, error) {
	client, err := e.http(metrics)
	if err != nil {
		return nil, err
	}
	compression := otlpmetrichttp.GzipCompression
	if e.target.GRPC {
		compression = otlpmetrichttp.NoCompression
	}
	next, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(e.url(metrics)), otlpmetrichttp.WithHTTPClient(client),
		otlpmetrichttp.WithHeaders(e.headers), otlpmetrichttp.WithCompression(compression), otlpmetrichttp.WithTimeout(exportTimeout),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: exportTimeout}))
	return &quietMetrics{next, e.log}, err
}

// down reports whether a signal could not be sent at the last attempt.
func (e *exporter) down() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.failing) > 0
}

// note records the outcome of an attempt; reason is "" for a success.
func (e *exporter) note(signal, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.failing)
	if reason == "" {
		delete(e.failing, signal)
	} else {
		e.failing[signal] = true
	}
	switch after := len(e.failing); {
	case before == 0 && after > 0:
		e.log.Warn("telemetry cannot be sent; requests are served without it", "endpoint", e.target.String(), "signal", signal, "reason", reason)
	case before > 0 && after == 0:
		e.log.Info("telemetry is sent again", "endpoint", e.target.String())
	}
}

// attempts notes the outcome of each attempt to send a signal.
type attempts struct {
	exporter *exporter
	signal   string
	next     http.RoundTripper
}

func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(r)
	switch {
	case err != nil && errors.Is(r.Context().Err(), context.Canceled):
		// The gateway stops.
	case err != nil:
		a.exporter.note(a.signal, err.Error())
	case resp.StatusCode/100 != 2:
		a.exporter.note(a.signal, fmt.Sprintf("the collector responds with %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	default:
		a.exporter.note(a.signal, "")
	}
	return resp, err
}

// CloseIdleConnections is called by http.Client.
func (a *attempts) CloseIdleConnections() {
	(&http.Client{Transport: a.next}).CloseIdleConnections()
}

// quietSpans and quietMetrics keep errors from the SDK, which would write them to standard
// error. attempts has logged those that matter.
type quietSpans struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func (q *quietSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.log.Debug("spans were not sent", "spans", len(spans), "error", strings.TrimSpace(err.Error()))
	}
	return nil
}

type quietMetrics struct {
	sdkmetric.Exporter
	log *slog.Logger
}

func (q *quietMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := q.Exporter.Export(ctx, m); err != nil {
		q.log.Debug("metrics were not sent", "error", strings.TrimSpace(err.Error()))
	}
	return nil
}
