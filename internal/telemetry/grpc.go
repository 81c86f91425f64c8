package telemetry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// overGRPC sends the requests of an OTLP/HTTP exporter as unary gRPC calls, whose messages
// are the same (OTLP specification, OTLP/gRPC). Both protocols then have one HTTP client
// with one set of rules. next speaks HTTP/2.
//
// The wire format is that of "gRPC over HTTP/2": a message has a prefix of a flag and its
// length, and the status is in the trailers.
type overGRPC struct{ next http.RoundTripper }

// services are the methods of the signals' paths.
var services = map[string]string{
	"/v1/" + traces:  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	"/v1/" + metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}

const (
	prefixSize  = 5
	maxResponse = 1 << 20
)

func (g *overGRPC) RoundTrip(r *http.Request) (*http.Response, error) {
	message, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	call := r.Clone(r.Context())
	call.URL.Path = services[r.URL.Path]
	call.Header.Set("Content-Type", "application/grpc")
	call.Header.Set("TE", "trailers")
	if deadline, ok := r.Context().Deadline(); ok {
		call.Header.Set("Grpc-Timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"m")
	}
	framed := make([]byte, prefixSize, prefixSize+len(message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message))) // the SDK bounds an export far below 4 GiB
	framed = append(framed, message...)
	call.Body, call.ContentLength = io.NopCloser(bytes.NewReader(framed)), int64(len(framed))
	call.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(framed)), nil }
	resp, err := g.next.RoundTrip(call)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := netguard.ReadBounded(resp.Body, maxResponse) // the trailers follow it
	if err != nil {
		return nil, fmt.Errorf("read the response of the collector: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return response(r, resp.StatusCode, nil), nil
	}
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" {
		status = resp.Header.Get("Grpc-Status") // a response of trailers only
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		return nil, errors.New("the collector does not respond in gRPC; --otel-endpoint may be one of HTTP (port 4318)")
	}
	if code != 0 {
		return response(r, httpStatus(code), nil), nil
	}
	if len(answer) < prefixSize || answer[0] != 0 {
		return nil, errors.New("the collector's response is not a gRPC message")
	}
	return response(r, http.StatusOK, answer[prefixSize:]), nil
}

// CloseIdleConnections is called by http.Client.
func (g *overGRPC) CloseIdleConnections() {
	(&http.Client{Transport: g.next}).CloseIdleConnections()
}

func response(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-protobuf"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// httpStatus is the HTTP status with the same meaning for an exporter. The codes that may be
// retried become 503 (OTLP specification, OTLP/gRPC Response, Failures).
func httpStatus(code int) int {
	switch code {
	case 1, 4, 8, 10, 11, 14, 15: // cancelled, deadline, exhausted, aborted, out of range, unavailable, data loss
		return http.StatusServiceUnavailable
	case 7:
		return http.StatusForbidden
	case 12:
		return http.StatusNotFound // unimplemented
	case 16:
		return http.StatusUnauthorized
	}
	return http.StatusBadRequest
}
