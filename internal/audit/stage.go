package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Recorder records requests. It may be used concurrently.
type Recorder struct {
	cfg Config
	log *auditlog.Log

	mu         sync.Mutex
	refusals   *rate.Limiter
	suppressed int // refusals without a record since the last one
	// connections limits the records of connections; unrecorded counts those without one.
	connections *rate.Limiter
	unrecorded  int
}

// New returns a Recorder that stores records in log. workload is the Component unless cfg has
// one.
func New(cfg Config, workload string, log *auditlog.Log) *Recorder {
	if cfg.Component == "" {
		cfg.Component = workload
	}
	if cfg.MaxDataSize == 0 {
		cfg.MaxDataSize = defaultDataSize
	}
	if cfg.MaxDelegationDepth == 0 {
		cfg.MaxDelegationDepth = defaultDepth
	}
	return &Recorder{cfg: cfg, log: log, refusals: rate.NewLimiter(refusalRate, refusalBurst), connections: rate.NewLimiter(connectionRate, connectionBurst)}
}

// Outcomes of a request.
const (
	success          = "success"
	denied           = "denied"            // by the policy
	failure          = "failure"           // the gateway refused the request as faulty
	gatewayError     = "error"             // the server did not respond
	applicationError = "application_error" // the server or its tool responded with an error
	cancelled        = "cancelled"         // by the client
)

// Stage is an [exchange.Stage]: it records each request when it has its outcome. A
// subscription is recorded when it ends.
func (r *Recorder) Stage(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		event, known := eventTypes[x.Request.Method]
		if !known {
			event = otherRequest
		}
		if !r.cfg.records(event) {
			return next(ctx, x)
		}
		if err := r.log.Begin(); err != nil {
			return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "the request is refused: audit records cannot be stored", Status: http.StatusServiceUnavailable}
		}
		e := entry{event: event, x: x, params: x.Request.Params, began: time.Now()}
		m, err := next(ctx, x)
		e.took = time.Since(e.began)
		e.outcome(ctx, m, err, r.cfg.DetectApplicationErrors == nil || *r.cfg.DetectApplicationErrors)
		if m != nil {
			e.result = m.Result
		}
		r.log.Append(r.line(&e))
		return m, err
	}
}

// entry is one request and its outcome.
type entry struct {
	event  string
	x      *exchange.Exchange
	params json.RawMessage // as the client sent them
	result json.RawMessage
	began  time.Time
	took   time.Duration
	ended  string // the outcome
	err    *mcp.Error
}

// outcome determines how the request ended for the client.
func (e *entry) outcome(ctx context.Context, m *mcp.Message, err error, detect bool) {
	e.ended = success
	switch {
	case err != nil:
		e.ended = gatewayError
		if !errors.As(err, &e.err) {
			e.err = &mcp.Error{Code: mcp.CodeServerGone, Message: err.Error()}
		}
		switch {
		case e.err.Status == http.StatusForbidden:
			e.ended = denied
		case ctx.Err() != nil:
			e.ended = cancelled
		case e.err.Code != mcp.CodeServerGone && e.err.Code != mcp.CodeInternal:
			e.ended = failure
		}
	case m.Error != nil:
		e.err = m.Error
		if detect {
			e.ended = applicationError
		}
	case detect && e.x.Request.Method == mcp.MethodToolsCall:
		if raw, found, err := mcp.Lookup(m.Result, "isError"); err == nil && found && string(raw) == "true" {
			e.ended = applicationError
		}
	}
}

// line formats a record as one line of JSON, in the format of existing log processors.
func (r *Recorder) line(e *entry) []byte {
	x := e.x
	extra := []any{slog.Float64("duration_ms", float64(e.took.Microseconds())/1000),
		slog.Int("request_size_bytes", len(e.params)), slog.Int("response_size_bytes", len(e.result)),
		slog.String("protocol_version", string(x.Client.Version))}
	if e.err != nil {
		extra = append(extra, slog.Int("jsonrpc_error_code", e.err.Code), slog.String("jsonrpc_error_message", plaintext.Excerpt(redactText(e.err.Message), maxShown)))
	}
	if trace := traceID(x); trace != "" {
		extra = append(extra, slog.String("trace_id", trace))
	}
	attrs := append(r.head(e.event, e.began.Add(e.took), e.ended), network(x.Source),
		subjects(x),
		target(x.Request.Method, e.params),
		slog.Group("metadata", slog.Group("extra", extra...)),
	)
	if actors := delegation(x.Caller, r.cfg.MaxDelegationDepth); len(actors) > 0 {
		attrs = append(attrs, slog.Any("delegation", actors))
	}
	var data []any
	if r.cfg.IncludeRequestData && len(e.params) > 0 {
		data = append(data, slog.String("request", redact(e.params, r.cfg.MaxDataSize)))
	}
	if r.cfg.IncludeResponseData && len(e.result) > 0 {
		data = append(data, slog.String("response", redact(e.result, r.cfg.MaxDataSize)))
	}
	if len(data) > 0 {
		attrs = append(attrs, slog.Group("data", data...))
	}
	return format(e.began, e.event, e.ended, attrs)
}

// format is the record with attrs as one line of JSON.
func format(at time.Time, event, outcome string, attrs []slog.Attr) []byte {
	var line bytes.Buffer
	record := slog.NewRecord(at, slog.LevelInfo, "audit_event", 0)
	record.AddAttrs(attrs...)
	if err := slog.NewJSONHandler(&line, nil).Handle(context.Background(), record); err != nil { // a value has no JSON form
		return fmt.Appendf(nil, "{\"level\":\"AUDIT\",\"msg\":\"audit_event\",\"type\":%q,\"outcome\":%q}\n", event, outcome)
	}
	// The level follows the time, before all that is not ours. A function ReplaceAttr would be
	// called for every attribute.
	return bytes.Replace(line.Bytes(), []byte(`"level":"INFO"`), []byte(`"level":"AUDIT"`), 1)
}

// head are the attributes that every record begins with.
func (r *Recorder) head(event string, at time.Time, outcome string) []slog.Attr {
	return []slog.Attr{
		slog.String("audit_id", rand.Text()),
		slog.String("type", event),
		slog.String("logged_at", at.UTC().Format(time.RFC3339Nano)),
		slog.String("outcome", outcome),
		slog.String("component", r.cfg.Component),
	}
}

func network(s exchange.Source) slog.Attr {
	return slog.Group("source", slog.String("type", "network"), slog.String("value", s.Address),
		slog.Group("extra", optional("user_agent", s.UserAgent), optional("request_id", s.RequestID)))
}

// anonymous is the user of a request without a token.
const anonymous = "anonymous"

// maxShown bounds a name or message in a record, in characters.
const maxShown = 256

// optional is an attribute that is left out when it is empty.
func optional(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(key, plaintext.Excerpt(value, maxShown))
}

func subjects(x *exchange.Exchange) slog.Attr {
	attrs := []any{}
	if c := x.Caller; c == nil {
		attrs = append(attrs, slog.String("user", anonymous))
	} else {
		user := c.Subject
		for _, claim := range []string{"name", "preferred_username", "email"} {
			if name, ok := c.Claims[claim].(string); ok && name != "" {
				user = name
				break
			}
		}
		attrs = append(attrs, optional("user", user), optional("user_id", c.Subject), optional("issuer", c.Issuer))
	}
	name, _, _ := mcp.LookupString(x.Client.Info, "name")
	version, _, _ := mcp.LookupString(x.Client.Info, "version")
	return slog.Group("subjects", append(attrs, optional("client_name", name), optional("client_version", version))...)
}

func target(method string, params json.RawMessage) slog.Attr {
	kind := ""
	switch method {
	case mcp.MethodToolsCall:
		kind = "tool"
	case mcp.MethodPromptsGet:
		kind = "prompt"
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		kind = "resource"
	}
	name, _, _ := mcp.LookupName(method, params)
	return slog.Group("target", slog.String("method", plaintext.Excerpt(method, 64)), optional("name", name), optional("type", kind))
}

// delegation are the subjects of the actors of a token, the current one first (RFC 8693
// section 4.1).
func delegation(c *exchange.Caller, depth int) (actors []string) {
	if c == nil {
		return nil
	}
	act, _ := c.Claims["act"].(map[string]any)
	for ; act != nil && len(actors) < depth; act, _ = act["act"].(map[string]any) {
		sub, _ := act["sub"].(string)
		actors = append(actors, plaintext.Excerpt(sub, maxShown))
	}
	return actors
}

// traceID is the id of the trace that the gateway traces, or else of the one in _meta (W3C
// Trace Context section 3.2); "" for none.
func traceID(x *exchange.Exchange) string {
	if x.TraceID != "" {
		return x.TraceID
	}
	parent := x.Meta.TraceParent
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' {
		return ""
	}
	return plaintext.Excerpt(parent[3:35], 32)
}
