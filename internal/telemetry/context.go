package telemetry

import (
	"context"
	"encoding/json"
	"net/http"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds of tracestate (W3C Trace Context section 3.3.1.5 requires 512 bytes) and of
// baggage (W3C Baggage section 3.3.2 requires 8192 bytes).
const (
	maxState   = 512
	maxBaggage = 8192
)

// carrier is a trace context in its text form: in headers or in _meta, whose members have
// the same names. It is a [propagation.TextMapCarrier].
type carrier struct{ parent, state, baggage string }

func headerCarrier(h http.Header) carrier {
	one := func(name string, limit int) string {
		if v := h[name]; len(v) == 1 && len(v[0]) <= limit {
			return v[0]
		}
		return ""
	}
	return carrier{one("Traceparent", maxText), one("Tracestate", maxState), one("Baggage", maxBaggage)}
}

func metaCarrier(m *mcp.Meta) carrier {
	c := carrier{parent: m.TraceParent}
	if len(m.TraceState) <= maxState {
		c.state = m.TraceState
	}
	if len(m.Baggage) <= maxBaggage {
		c.baggage = m.Baggage
	}
	return c
}

// Get implements [propagation.TextMapCarrier].
func (c *carrier) Get(key string) string {
	switch key {
	case mcp.MetaTraceParent:
		return c.parent
	case mcp.MetaTraceState:
		return c.state
	}
	return ""
}

// Set implements [propagation.TextMapCarrier].
func (c *carrier) Set(key, value string) {
	switch key {
	case mcp.MetaTraceParent:
		c.parent = value
	case mcp.MetaTraceState:
		c.state = value
	}
}

// Keys implements [propagation.TextMapCarrier].
func (c *carrier) Keys() []string { return []string{mcp.MetaTraceParent, mcp.MetaTraceState} }

// span returns the span that c identifies; it is not valid if there is none.
func (c *carrier) span() trace.SpanContext {
	if c.parent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), c))
}

// carry returns the text form of the span in ctx, with the baggage if that is well-formed.
func carry(ctx context.Context, bag string) carrier {
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	if bag != "" {
		if _, err := baggage.Parse(bag); err == nil {
			c.baggage = bag
		}
	}
	return c
}

// intoMeta returns params with c in _meta, in place of another trace context there. It
// returns false for params that have no _meta, such as an array.
func (c *carrier) intoMeta(params json.RawMessage) (json.RawMessage, bool) {
	if mcp.Mentions(params, mcp.MetaTraceParent) || mcp.Mentions(params, mcp.MetaTraceState) || mcp.Mentions(params, mcp.MetaBaggage) {
		var err error
		if params, err = mcp.Without(params, isTraceKey, "_meta"); err != nil {
			return nil, false
		}
	}
	members := make([]byte, 0, 96+len(c.state)+len(c.baggage))
	members = append(append(append(members, `"`+mcp.MetaTraceParent+`":"`...), c.parent...), '"') // digits and dashes
	members = appendMember(members, mcp.MetaTraceState, c.state)
	members = appendMember(members, mcp.MetaBaggage, c.baggage)
	params, err := mcp.Insert(params, members, "_meta")
	return params, err == nil
}

func isTraceKey(key string) bool {
	return key == mcp.MetaTraceParent || key == mcp.MetaTraceState || key == mcp.MetaBaggage
}

// appendMember adds a member after others, unless its value is empty.
func appendMember(members []byte, name, value string) []byte {
	if value == "" {
		return members
	}
	members = append(append(append(members, `,"`...), name...), `":`...)
	quoted, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return append(members, quoted...)
}

type carrierKey struct{}

// Propagate returns a RoundTripper that adds the trace context of a request to its headers,
// for a server that is reached over HTTP.
func Propagate(next http.RoundTripper) http.RoundTripper { return &propagator{next} }

type propagator struct{ next http.RoundTripper }

func (p *propagator) RoundTrip(r *http.Request) (*http.Response, error) {
	c, ok := r.Context().Value(carrierKey{}).(*carrier)
	if !ok {
		return p.next.RoundTrip(r)
	}
	r = r.Clone(r.Context()) // a RoundTripper must not change its request
	for name, value := range map[string]string{"Traceparent": c.parent, "Tracestate": c.state, "Baggage": c.baggage} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return p.next.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client.
func (p *propagator) CloseIdleConnections() {
	(&http.Client{Transport: p.next}).CloseIdleConnections()
}
