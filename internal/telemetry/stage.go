package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Stage is an [exchange.Stage]: it measures each request as its client does. A subscription
// is measured when it ends.
func (t *Telemetry) Stage(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (m *mcp.Message, err error) {
		in := incomingOf(ctx)
		if in != nil {
			in.exchanged.Store(true)
		}
		o := outcome{name: target(x.Request)}
		began := time.Now()
		var span trace.Span
		var ambient trace.SpanContext
		if t.tracer != nil {
			ctx, span, ambient = t.start(ctx, x, in, o.name)
			traced := *x
			traced.TraceID = span.SpanContext().TraceID().String()
			x = &traced
		}
		// Deferred: a panic in a later stage is an error of this request too.
		defer func() {
			o.took = time.Since(began)
			o.determine(ctx, x, m, err)
			t.series.record(x, &o)
			if span == nil {
				return
			}
			if span.IsRecording() {
				t.describe(span, x, in, &o)
				if ambient.IsValid() {
					span.AddLink(trace.Link{SpanContext: ambient})
				}
			}
			span.End()
		}()
		return next(ctx, x)
	}
}

// start begins the span of a request. Its parent is the context in _meta, or else that of the
// headers; ambient is that of the headers when both are there (semantic conventions for MCP,
// Context propagation).
func (t *Telemetry) start(ctx context.Context, x *exchange.Exchange, in *incoming, name string) (_ context.Context, _ trace.Span, ambient trace.SpanContext) {
	given := metaCarrier(&x.Meta)
	parent := given.span()
	if in != nil {
		if header := in.trace.span(); !parent.IsValid() {
			parent = header
		} else if header.TraceID() != parent.TraceID() {
			ambient = header
		}
	}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	ctx, span := t.tracer.Start(ctx, spanName(x.Request.Method, name), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, span, ambient
}

// describe completes the span of a request.
func (t *Telemetry) describe(span trace.Span, x *exchange.Exchange, in *incoming, o *outcome) {
	attrs := append(make([]attribute.KeyValue, 0, 48), t.env...)
	attrs = operation(attrs, x, o)
	attrs = append(attrs, attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "http"))
	if in != nil {
		attrs = append(attrs, attribute.String("network.protocol.version", strings.TrimPrefix(in.proto, "HTTP/")))
	}
	if session := in.sessionHash(); session != "" && !x.Client.Version.IsStateless() {
		attrs = append(attrs, attribute.String("mcp.session.id", session))
	}
	if name, _, err := mcp.LookupString(x.Client.Info, "name"); err == nil && name != "" {
		attrs = append(attrs, attribute.String("mcp.client.name", text(name)))
	}
	attrs = in.attributes(attrs, t.legacy, o.status, o.took)
	if t.legacy {
		attrs = t.legacyOperation(attrs, x, o)
	}
	span.SetAttributes(attrs...)
	if o.errType != "" {
		span.SetStatus(codes.Error, "") // the message of an error may hold a secret
	}
}

// ServerStage is an [exchange.Stage] directly before the server. It makes the span of the
// request to the server, and sends its context with the request.
func (t *Telemetry) ServerStage(next exchange.Handler) exchange.Handler {
	if t.tracer == nil {
		return next
	}
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		o := outcome{name: target(x.Request)}
		var span trace.Span // nil when the trace is not sampled
		if trace.SpanContextFromContext(ctx).IsSampled() {
			ctx, span = t.tracer.Start(ctx, spanName(x.Request.Method, o.name), trace.WithSpanKind(trace.SpanKindClient))
		}
		bag := x.Meta.Baggage
		if in := incomingOf(ctx); bag == "" && in != nil {
			bag = in.trace.baggage
		}
		c := carry(ctx, bag)
		sent := *x
		if params, ok := c.intoMeta(x.Request.Params); ok {
			request := *x.Request
			request.Params = params
			sent.Request = &request
			sent.Meta.TraceParent, sent.Meta.TraceState, sent.Meta.Baggage = c.parent, c.state, c.baggage
		}
		ctx = context.WithValue(ctx, carrierKey{}, &c)
		if span == nil {
			return next(ctx, &sent)
		}
		defer span.End()
		m, err := next(ctx, &sent)
		o.determine(ctx, x, m, err)
		span.SetAttributes(append(operation(make([]attribute.KeyValue, 0, 12), x, &o), t.server...)...)
		if o.errType != "" {
			span.SetStatus(codes.Error, "")
		}
		return m, err
	}
}

// spanName is the name of a request's span: the method, and the name of a tool or prompt
// (semantic conventions for MCP, Spans).
func spanName(method, name string) string {
	method = text(method)
	if name == "" || method != mcp.MethodToolsCall && method != mcp.MethodPromptsGet {
		return method
	}
	return method + " " + text(name)
}

// target is the name of the tool or prompt, or the URI of the resource, that a request is
// about; "" for none.
func target(m *mcp.Message) string {
	member := "uri"
	switch m.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		member = "name"
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
	default:
		return ""
	}
	name, _, err := mcp.LookupString(m.Params, member)
	if err != nil {
		return ""
	}
	return name
}

// outcome is how a request ended.
type outcome struct {
	name string // its target
	took time.Duration
	// errType is error.type, "" for a success; code that of a JSON-RPC error.
	errType, code string
	// status is the HTTP status, as far as it is known; the front may choose another one for
	// some errors.
	status int
}

// determine sets all but name and took.
func (o *outcome) determine(ctx context.Context, x *exchange.Exchange, m *mcp.Message, err error) {
	o.status = http.StatusOK
	var rpc *mcp.Error
	switch {
	case err != nil && ctx.Err() != nil:
		o.errType = "cancelled"
	case err != nil:
		var ok bool
		if rpc, ok = errors.AsType[*mcp.Error](err); !ok {
			rpc = &mcp.Error{Code: mcp.CodeServerGone}
		}
	case m == nil: // a panic
		rpc = &mcp.Error{Code: mcp.CodeInternal}
	case m.Error != nil:
		rpc = m.Error
	case x.Request.Method == mcp.MethodToolsCall && mcp.Mentions(m.Result, "isError"):
		if raw, found, err := mcp.Lookup(m.Result, "isError"); err == nil && found && string(raw) == "true" {
			o.errType = "tool_error"
		}
	}
	if rpc != nil {
		o.errType = codeText(rpc.Code)
		o.code = strconv.Itoa(rpc.Code)
		if rpc.Status != 0 {
			o.status = rpc.Status
		}
	}
}

// codeText is the text of a JSON-RPC error code, [other] for one that a server invented.
func codeText(code int) string {
	switch {
	case code == mcp.CodeParse, code <= -32600 && code >= -32603, code <= -32000 && code >= -32099, code == mcp.CodeForbidden:
		return strconv.Itoa(code)
	}
	return other
}
