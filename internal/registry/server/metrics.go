package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// metrics are those of /metrics, under thv_registry_.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	keys      *prometheus.CounterVec
	syncs     *prometheus.CounterVec
	syncTimes *prometheus.HistogramVec
	// auditFailures counts records of writes that could not be stored.
	auditFailures prometheus.Counter
}

const namespace = "thv_registry"

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("http_requests_total", "Requests answered on the main port.", "route", "method", "code"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "http_request_duration_seconds", Help: "Time to answer a request on the main port.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "method"}),
		tokens: counter("token_validations_total", "Validations of access tokens that were not cached, by provider and outcome (accepted, rejected, unavailable).", "provider", "outcome"),
		keys:   counter("key_fetches_total", "Fetches of a provider's keys, by outcome (fetched, failed).", "provider", "outcome"),
		syncs:  counter("source_syncs_total", "Synchronizations of a source, by outcome.", "source", "outcome"),
		syncTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "source_sync_duration_seconds", Help: "Time a synchronization took.",
			Buckets: []float64{.01, .1, .5, 1, 5, 10, 30, 60, 300},
		}, []string{"source"}),
	}
	m.auditFailures = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "audit_failures_total", Help: "Records of writes that could not be stored, and writes that were rejected for that."})
	b := buildinfo.Get()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", Help: "The build that runs; always 1."}, []string{"version", "commit", "go_version"})
	info.WithLabelValues(b.Version, b.Commit, b.GoVersion).Set(1)
	m.registry.MustRegister(m.requests, m.durations, m.tokens, m.keys, m.syncs, m.syncTimes, m.auditFailures, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// observeRequest counts an unknown method as other, so that a caller cannot make
// unbounded label values.
func (m *metrics) observeRequest(route, method, code string, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, code).Inc()
	m.durations.WithLabelValues(route, method).Observe(took.Seconds())
}

func (m *metrics) observeToken(provider, outcome string) {
	m.tokens.WithLabelValues(provider, outcome).Inc()
}

func (m *metrics) observeKeys(provider, outcome string) {
	m.keys.WithLabelValues(provider, outcome).Inc()
}

func (m *metrics) observeSync(name string, outcome string, took time.Duration) {
	m.syncs.WithLabelValues(name, outcome).Inc()
	m.syncTimes.WithLabelValues(name).Observe(took.Seconds())
}

// watchSources adds the state of synchronization, read from the database at each
// scrape: all replicas have the same.
func (m *metrics) watchSources(st store.Store, sources []config.Source) {
	var names []string
	for _, s := range sources {
		if s.Managed == nil {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		m.registry.MustRegister(&sourceCollector{store: st, names: names})
	}
}

type sourceCollector struct {
	store store.Store
	names []string
}

var (
	lastSuccess = sourceDesc("source_last_success_timestamp_seconds", "When the source was last synchronized; 0 if never.")
	failing     = sourceDesc("source_failures", "Attempts that failed since the last success.")
	servers     = sourceDesc("source_servers", "Servers that the source lists.")
	versions    = sourceDesc("source_versions", "Versions of servers that the source lists.")
	malformed   = sourceDesc("source_malformed_entries", "Entries of the source that cannot be used and are left out.")
	others      = sourceDesc("source_other_entries", "Entries of the source that are not servers (skills, plugins) and are left out.")
)

func sourceDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, []string{"source"}, nil)
}

// Describe implements prometheus.Collector.
func (c *sourceCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lastSuccess, failing, servers, versions, malformed, others} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *sourceCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	states, err := c.store.Syncs(ctx, c.names)
	if err != nil {
		return // the database is down, which /readiness reports
	}
	for _, s := range states {
		last := 0.0
		if !s.LastSuccess.IsZero() {
			last = float64(s.LastSuccess.Unix())
		}
		for desc, value := range map[*prometheus.Desc]float64{
			lastSuccess: last, failing: float64(s.Failures), servers: float64(s.Servers), versions: float64(s.Versions),
			malformed: float64(s.Malformed), others: float64(s.Others),
		} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, s.Source)
		}
	}
}
