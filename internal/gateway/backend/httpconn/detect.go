package httpconn

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Transports of remote servers, as they are written on the command line.
const (
	TransportStreamable = "streamable-http"
	TransportSSE        = "sse"
)

// detectTime bounds each of the three requests of Detect.
const detectTime = 10 * time.Second

// Detect returns the transport of the server at rawURL, in the order of a client that
// supports older servers (MCP, Transports, Backwards Compatibility): it POSTs an
// initialize request; if that is refused with 400, 404 or 405 it POSTs server/discover,
// and then GETs the URL and waits for an endpoint event, which is HTTP+SSE. A session that
// the first request began is ended. The error gives the reason of each refusal. A nil
// transport means the default one.
func Detect(ctx context.Context, rawURL string, transport http.RoundTripper) (string, error) {
	if transport == nil {
		transport = newTransport()
		defer (&http.Client{Transport: transport}).CloseIdleConnections()
	}
	r, err := newRemote(rawURL, transport)
	if err != nil {
		return "", err
	}
	refused, err := probeStreamable(ctx, r)
	if err != nil {
		return "", err
	}
	if refused == nil {
		return TransportStreamable, nil
	}
	switch refused.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		return "", refused.err()
	}
	if isStateless(ctx, rawURL, transport, refused) {
		return TransportStreamable, nil
	}
	wait, cancel := context.WithTimeout(ctx, detectTime)
	defer cancel()
	stream, err := openEvents(ctx, wait, r)
	if err != nil {
		return "", fmt.Errorf("%s is neither a streamable HTTP server (%s) nor an SSE server (%w)", r, refused.text, err)
	}
	_ = stream.body.Close()
	return TransportSSE, nil
}

// isStateless reports whether the server, which refused initialize, supports the stateless
// era. Some errors show it; otherwise the server is sent server/discover (MCP 2026-07-28,
// Versioning, Backward Compatibility).
func isStateless(ctx context.Context, rawURL string, transport http.RoundTripper, refused *refusal) bool {
	if refused.rpc != nil {
		switch code := refused.rpc.Error.Code; {
		case wire.IsStatelessCode(code), code == mcp.CodeMethodNotFound, code == mcp.CodeInvalidParams:
			return true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, detectTime)
	defer cancel()
	h := NewStateless(StreamableConfig{URL: rawURL, Transport: transport}.WithDefaults())
	defer func() { _ = h.Close() }()
	params, err := wire.NewClientMeta(wire.OwnClient()).Into(nil, "")
	if err != nil {
		return false
	}
	answer, err := h.Do(ctx, &exchange.Exchange{
		Client:  wire.OwnClient(),
		Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodDiscover, Params: params},
	})
	return err == nil && wire.ProvesStateless(answer)
}

// probeStreamable POSTs an initialize request and returns its refusal, nil if the server
// accepted it.
func probeStreamable(ctx context.Context, r *remote) (*refusal, error) {
	ctx, cancel := context.WithTimeout(ctx, detectTime)
	defer cancel()
	init, err := wire.InitializeRequest(&exchange.Client{})
	if err != nil {
		return nil, err
	}
	resp, err := r.post(ctx, r.url, http.Header{}, init)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return r.refused(resp, mcp.MethodInitialize), nil
	}
	defer func() { _ = resp.Body.Close() }()
	t := mediaType(resp)
	if t != mcp.TypeJSON && t != mcp.TypeEventStream {
		return nil, wire.ServerGone("the server at %s answered initialize with content type %q instead of JSON or an event stream; is this the URL of an MCP server?", r, wire.Printable(t))
	}
	if id := resp.Header.Get(mcp.HeaderSessionID); id != "" && isVisibleASCII(id) {
		endProbe(ctx, r, id)
	}
	return nil, nil
}

// endProbe ends the session that a probe began. A failure is ignored.
func endProbe(ctx context.Context, r *remote, id string) {
	h := http.Header{}
	h.Set(mcp.HeaderSessionID, id)
	h.Set(mcp.HeaderVersion, string(mcp.LatestSession))
	if resp, err := r.do(ctx, http.MethodDelete, r.url, h, nil); err == nil {
		discard(resp)
	}
}
