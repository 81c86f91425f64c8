package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// incoming is what only the HTTP request has. It outlives the request: the exchange may end
// later.
type incoming struct {
	began                                          time.Time
	trace                                          carrier
	method, scheme, host, path, proto, agent, peer string
	size                                           int64
	// session is the id that the client sent, or is in the query (HTTP+SSE). It gives access to
	// the session, so spans have a hash of it.
	session, query string
	// exchanged is set when the request became an exchange, which is measured by Stage.
	exchanged atomic.Bool
}

type incomingKey struct{}

func incomingOf(ctx context.Context) *incoming {
	in, _ := ctx.Value(incomingKey{}).(*incoming)
	return in
}

func newIncoming(r *http.Request, peer string) *incoming {
	in := &incoming{
		began: time.Now(), trace: headerCarrier(r.Header), method: httpMethod(r.Method), scheme: "http", host: r.Host, path: r.URL.Path,
		proto: r.Proto, agent: r.UserAgent(), peer: peer, size: r.ContentLength, session: r.Header.Get(mcp.HeaderSessionID), query: r.URL.RawQuery,
	}
	if r.TLS != nil {
		in.scheme = "https"
	}
	return in
}

// httpMethod is a method as a label: [other] for an unknown one.
func httpMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return other
}

// sessionHash identifies a session in spans without giving access to it; "" without one.
func (in *incoming) sessionHash() string {
	if in == nil {
		return ""
	}
	id := in.session
	if values, err := url.ParseQuery(in.query); id == "" && err == nil {
		id = values.Get("session_id")
	}
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// HTTP is the stage that inspects HTTP requests. It counts open event streams, and the
// requests that are refused before they are exchanges.
func (t *Telemetry) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := newIncoming(r, t.source(r))
		out := &observedWriter{ResponseWriter: w, telemetry: t, incoming: in}
		defer out.end()
		next.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), incomingKey{}, in)))
	})
}

// observedWriter notes how a response begins.
type observedWriter struct {
	http.ResponseWriter
	telemetry *Telemetry
	incoming  *incoming
	status    int
	streams   bool // it is an event stream of its own, which was counted
}

func (w *observedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *observedWriter) begin() {
	if w.incoming.method != http.MethodGet || w.status != http.StatusOK {
		return
	}
	media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil || media != mcp.TypeEventStream {
		return
	}
	w.streams = true
	w.telemetry.series.connect(1)
	w.telemetry.note(w.incoming, "sse.connection_established", w.status)
}

func (w *observedWriter) end() {
	if w.streams {
		w.telemetry.series.connect(-1)
	}
	in := w.incoming
	if w.status >= http.StatusBadRequest && !in.exchanged.Load() && in.path != endpoint.PathHealth {
		w.telemetry.series.refuse(in.method, w.status, time.Since(in.began))
		w.telemetry.note(in, in.method, w.status)
	}
}

// note makes the span of an HTTP request that is no exchange.
func (t *Telemetry) note(in *incoming, name string, status int) {
	if t.tracer == nil {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), in.trace.span())
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(in.began))
	if span.IsRecording() {
		attrs := append(make([]attribute.KeyValue, 0, 32), t.env...)
		attrs = in.attributes(attrs, t.legacy, status, time.Since(in.began))
		span.SetAttributes(attrs...)
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}

// address splits a host and port; the port is "" if there is none.
func address(hostport string) (host, port string) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return hostport, ""
	}
	return host, port
}
