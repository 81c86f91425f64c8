package telemetry

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// other is the value of a label for what has none of its own (semantic conventions).
const other = "_OTHER"

// Bounds of what clients can make the gateway remember.
const (
	maxProven   = 500  // names of tools, or of prompts, that a server has accepted
	maxUnproven = 50   // further names
	maxCached   = 4096 // sets of labels
)

// buckets are those of the semantic conventions for MCP, in seconds.
func buckets() []float64 {
	return []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
}

// series are the metrics. The names that begin with toolhive_ are those that existing
// dashboards query; docs/telemetry.md lists all. Methods of a nil *series do nothing.
type series struct {
	workload, transport string

	operation   metric.Float64Histogram
	requests    metric.Int64Counter
	requestTime metric.Float64Histogram
	toolCalls   metric.Int64Counter
	connections metric.Int64UpDownCounter
	connection  []metric.AddOption

	methods        map[string]bool
	tools, prompts names

	mu    sync.RWMutex
	cache map[labels]*sets
}

// labels are the values that distinguish the series of requests. All are bounded.
type labels struct {
	http, method, tool, prompt, errType, version string
	status                                       int
}

// sets are the labels in the forms that the SDK takes.
type sets struct {
	operation   []metric.RecordOption
	requests    []metric.AddOption
	requestTime []metric.RecordOption
	toolCalls   []metric.AddOption
}

func newSeries(m metric.Meter, opt Options, sessions func() int64) (*series, error) {
	s := &series{workload: opt.Workload, transport: opt.Transport, cache: map[labels]*sets{}, methods: map[string]bool{}}
	for _, method := range slices.Concat(mcp.ClientMethods(), []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/list", "tasks/result"}) {
		s.methods[method] = true
	}
	s.connection = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
		attribute.String("server", s.workload), attribute.String("transport", s.transport), attribute.String("connection_type", "sse")))}
	var errs [6]error
	s.operation, errs[0] = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the receipt of a request to its response."), metric.WithExplicitBucketBoundaries(buckets()...))
	s.requests, errs[1] = m.Int64Counter("toolhive_mcp_requests", metric.WithDescription("Requests of clients."))
	s.requestTime, errs[2] = m.Float64Histogram("toolhive_mcp_request_duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of the requests of clients."), metric.WithExplicitBucketBoundaries(buckets()...))
	s.toolCalls, errs[3] = m.Int64Counter("toolhive_mcp_tool_calls", metric.WithDescription("Calls of tools."))
	s.connections, errs[4] = m.Int64UpDownCounter("toolhive_mcp_active_connections", metric.WithDescription("Event streams that clients hold open."))
	_, errs[5] = m.Int64ObservableUpDownCounter("mcp.server.active_sessions", metric.WithUnit("{session}"), metric.WithDescription("Open sessions."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(sessions())
			return nil
		}))
	return s, errors.Join(errs[:]...)
}

// versionLabel is the protocol version of the client, [other] for an unknown one.
func versionLabel(x *exchange.Exchange) string {
	if v := x.Client.Version; v.IsSession() || v == mcp.LatestStateless {
		return string(v)
	}
	return other
}

// record counts a request that has ended.
func (s *series) record(x *exchange.Exchange, o *outcome) {
	if s == nil {
		return
	}
	l := labels{http: http.MethodPost, method: other, errType: o.errType, version: versionLabel(x), status: o.status}
	if s.methods[x.Request.Method] {
		l.method = x.Request.Method
	}
	switch x.Request.Method {
	case mcp.MethodToolsCall:
		l.tool = s.tools.label(o.name, o.errType == "")
	case mcp.MethodPromptsGet:
		l.prompt = s.prompts.label(o.name, o.errType == "")
	}
	found := s.sets(l)
	seconds := o.took.Seconds()
	ctx := context.Background()
	s.operation.Record(ctx, seconds, found.operation...)
	s.requests.Add(ctx, 1, found.requests...)
	s.requestTime.Record(ctx, seconds, found.requestTime...)
	if x.Request.Method == mcp.MethodToolsCall {
		s.toolCalls.Add(ctx, 1, found.toolCalls...)
	}
}

// refuse counts an HTTP request that was refused before it was an exchange.
func (s *series) refuse(method string, status int, took time.Duration) {
	if s == nil {
		return
	}
	found := s.sets(labels{http: method, status: status, errType: strconv.Itoa(status)})
	s.requests.Add(context.Background(), 1, found.requests...)
	s.requestTime.Record(context.Background(), took.Seconds(), found.requestTime...)
}

// connect counts event streams.
func (s *series) connect(n int64) {
	if s != nil {
		s.connections.Add(context.Background(), n, s.connection...)
	}
}

func (s *series) sets(l labels) *sets {
	s.mu.RLock()
	found := s.cache[l]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	found = s.newSets(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache) < maxCached {
		s.cache[l] = found
	}
	return found
}

func (s *series) newSets(l labels) *sets {
	status := "success"
	if l.errType != "" {
		status = "error"
	}
	operation := []attribute.KeyValue{
		attribute.String("mcp.method.name", l.method), attribute.String("mcp.protocol.version", l.version),
		attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "http"),
	}
	if l.errType != "" {
		operation = append(operation, attribute.String("error.type", l.errType))
	}
	if l.tool != "" {
		operation = append(operation, attribute.String("gen_ai.tool.name", l.tool), attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	if l.prompt != "" {
		operation = append(operation, attribute.String("gen_ai.prompt.name", l.prompt))
	}
	request := metric.WithAttributeSet(attribute.NewSet(
		attribute.String("method", l.http), attribute.String("status_code", strconv.Itoa(l.status)), attribute.String("status", status),
		attribute.String("mcp_method", l.method), attribute.String("mcp_resource_id", l.tool+l.prompt), // one of them is empty
		attribute.String("server", s.workload), attribute.String("transport", s.transport)))
	call := attribute.NewSet(attribute.String("server", s.workload), attribute.String("tool", l.tool), attribute.String("status", status))
	return &sets{
		operation: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(operation...))},
		requests:  []metric.AddOption{request}, requestTime: []metric.RecordOption{request},
		toolCalls: []metric.AddOption{metric.WithAttributeSet(call)},
	}
}

// names are the names of tools, or of prompts, that are values of a label. A client can
// invent names, but a server does not accept those, so they do not displace the server's own.
type names struct {
	mu     sync.RWMutex
	known  map[string]bool // true for one that the server has accepted
	proven int
}

// label returns name, or [other] beyond the bounds.
func (n *names) label(name string, accepted bool) string {
	if name == "" || len(name) > maxText {
		return other
	}
	n.mu.RLock()
	proven, known := n.known[name]
	n.mu.RUnlock()
	if known && (proven || !accepted) {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	proven, known = n.known[name]
	switch {
	case proven, known && !accepted:
		return name
	case accepted && n.proven < maxProven:
		n.proven++
	case known:
		return name
	case accepted, len(n.known)-n.proven >= maxUnproven:
		return other
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = accepted
	return name
}
