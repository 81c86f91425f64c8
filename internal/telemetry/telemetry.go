package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// scope names the instrumentation.
const scope = "github.com/toolhaven/toolhaven"

// Options are what a workload gives its telemetry.
type Options struct {
	// Workload is the workload's name, Transport its server's transport ("stdio"), Version
	// that of Toolhaven.
	Workload, Transport, Version string
	// Secret returns the value of a reference in Config.Headers.
	Secret func(ref string) (string, error)
	// Env returns the value of one of Config.EnvVars, "" for none.
	Env func(name string) string
	// Source returns the address of the client, with a port if it is known; nil is the
	// connection's.
	Source func(*http.Request) string
	// CAFiles are trusted beside the system's authorities.
	CAFiles []string
	Log     *slog.Logger
	// Interval is the time between two exports; 0 is the SDK's own (spans 5 s, metrics 60 s).
	Interval time.Duration
}

// Telemetry measures the requests of one gateway. It may be used concurrently.
type Telemetry struct {
	log      *slog.Logger
	exporter *exporter    // nil without an endpoint
	handler  http.Handler // nil without /metrics

	spans  *sdktrace.TracerProvider // nil without tracing
	tracer trace.Tracer
	meters *sdkmetric.MeterProvider // nil without metrics
	series *series

	// server describes the connection to the server, env the environment, in spans.
	server []attribute.KeyValue
	env    []attribute.KeyValue
	legacy bool
	source func(*http.Request) string
	// transport is the server's.
	transport string

	sessions atomic.Pointer[func() int]
}

// New starts what the configuration needs, which Close ends. The collector is not contacted
// before there is something to send.
func New(cfg Config, opt Options) (*Telemetry, error) {
	ctx := context.Background() // the exporters do not connect yet
	t := &Telemetry{log: opt.Log, legacy: isOn(cfg.LegacyAttributes), source: opt.Source, transport: opt.Transport, server: serverConnection(opt.Transport)}
	if t.source == nil {
		t.source = func(r *http.Request) string { return r.RemoteAddr }
	}
	for _, name := range cfg.EnvVars {
		if value := opt.Env(name); value != "" {
			t.env = append(t.env, attribute.String("environment."+name, text(value)))
		}
	}
	if cfg.Endpoint != "" {
		var err error
		if t.exporter, err = newExporter(cfg, opt); err != nil {
			return nil, err
		}
	}
	res := describe(cfg, opt)
	if cfg.SendsTraces() {
		to, err := t.exporter.traces(ctx)
		if err != nil {
			return nil, fmt.Errorf("exporter of traces: %w", err)
		}
		var batch []sdktrace.BatchSpanProcessorOption
		if opt.Interval > 0 {
			batch = append(batch, sdktrace.WithBatchTimeout(opt.Interval))
		}
		t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(to, batch...),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.samplingRate()))))
		t.tracer = t.spans.Tracer(scope, trace.WithInstrumentationVersion(opt.Version))
	}
	if err := t.startMetrics(ctx, cfg, opt, res); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func newExporter(cfg Config, opt Options) (*exporter, error) {
	target, err := cfg.Target()
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	for name, ref := range cfg.Headers {
		if headers[name], err = opt.Secret(ref); err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
	}
	return &exporter{
		target: target, headers: headers, log: opt.Log, failing: map[string]bool{},
		// A person chose the collector, so it may have a private address.
		client: netguard.Options{CAFiles: opt.CAFiles, AllowPrivate: true, AllowLoopback: true, AllowHTTP: target.URL.Scheme == "http"},
	}, nil
}

// describe returns the resource: what the telemetry is of.
func describe(cfg Config, opt Options) *resource.Resource {
	var attrs []attribute.KeyValue
	for _, key := range slices.Sorted(maps.Keys(cfg.Attributes)) {
		attrs = append(attrs, attribute.String(key, cfg.Attributes[key]))
	}
	attrs = append(attrs, attribute.String("service.name", cfg.serviceName(opt.Workload)))
	if opt.Version != "" {
		attrs = append(attrs, attribute.String("service.version", opt.Version))
	}
	return resource.NewSchemaless(attrs...)
}

func (t *Telemetry) startMetrics(ctx context.Context, cfg Config, opt Options, res *resource.Resource) error {
	readers := []sdkmetric.Option{sdkmetric.WithResource(res)}
	if cfg.SendsMetrics() {
		to, err := t.exporter.metrics(ctx)
		if err != nil {
			return fmt.Errorf("exporter of metrics: %w", err)
		}
		var periodic []sdkmetric.PeriodicReaderOption
		if opt.Interval > 0 {
			periodic = append(periodic, sdkmetric.WithInterval(opt.Interval))
		}
		readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(to, periodic...)))
	}
	if cfg.Prometheus {
		registry := prometheus.NewRegistry()
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(),
			otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
		if err != nil {
			return fmt.Errorf("exporter of /metrics: %w", err)
		}
		readers = append(readers, sdkmetric.WithReader(reader))
		t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
	}
	if len(readers) == 1 {
		return nil
	}
	t.meters = sdkmetric.NewMeterProvider(readers...)
	var err error
	t.series, err = newSeries(t.meters.Meter(scope), opt, t.countSessions)
	return err
}

// maxScrapes bounds the scrapes of /metrics that are served at the same time.
const maxScrapes = 4

// Handler serves /metrics; nil when that is not configured.
func (t *Telemetry) Handler() http.Handler { return t.handler }

// SetSessions gives the function that counts the gateway's open sessions.
func (t *Telemetry) SetSessions(count func() int) { t.sessions.Store(&count) }

func (t *Telemetry) countSessions() int64 {
	if count := t.sessions.Load(); count != nil {
		return int64((*count)())
	}
	return 0
}

// Time to send what is left at the end; less when the last attempt failed.
const (
	flushTime     = 3 * time.Second
	flushTimeDown = 200 * time.Millisecond
)

// Close sends what is left, for a bounded time, and ends what New started.
func (t *Telemetry) Close() {
	bound := flushTime
	if t.exporter != nil && t.exporter.down() {
		bound = flushTimeDown
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	var ended sync.WaitGroup
	end := func(shutdown func(context.Context) error) {
		ended.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.log.Debug("telemetry that was left could not be sent", "error", err)
			}
		})
	}
	if t.spans != nil {
		end(t.spans.Shutdown)
	}
	if t.meters != nil {
		end(t.meters.Shutdown)
	}
	ended.Wait()
}
