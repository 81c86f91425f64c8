package httpconn

import (
	"context"
	"errors"
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

// detectTime bounds the initialize request and the GET of Detect, each.
const detectTime = 10 * time.Second

// Detect returns the transport of the server at rawURL, in the order of a client that
// supports older servers (MCP 2026-07-28, Versioning, Backward Compatibility). It POSTs
// server/discover; a server of the stateless era receives nothing else. Unless the response
// is of that era, Detect POSTs an initialize request. If that is refused with 400, 404 or
// 405, it GETs the URL and waits for an endpoint event, which is HTTP+SSE. A session that
// initialize began is ended. The error gives the reason of each refusal. A nil transport
// means the default one.
func Detect(ctx context.Context, rawURL string, transport http.RoundTripper) (string, error) {
	if transport == nil {
		transport = newTransport()
		defer (&http.Client{Transport: transport}).CloseIdleConnections()
	}
	r, err := newRemote(rawURL, transport)
	if err != nil {
		return "", err
	}
	stateless, err := probeStateless(ctx, rawURL, transport)
	if err != nil {
		return "", err
	}
	if stateless {
		return TransportStreamable, nil
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
	if refused.hasStatelessCode() {
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

// probeStateless POSTs server/discover and reports whether the response is one of the
// stateless era. Any other response, and none within [wire.ProbeTimeout], is no error: a
// server of the session era may handle an unknown method in any way. The error means that
// there is no connection to the server, or that ctx has ended.
func probeStateless(ctx context.Context, rawURL string, transport http.RoundTripper) (bool, error) {
	x, err := wire.DiscoverRequest(mcp.LatestStateless)
	if err != nil {
		return false, err
	}
	h := NewStateless(StreamableConfig{URL: rawURL, Transport: transport}.WithDefaults())
	defer func() { _ = h.Close() }()
	bound, cancel := context.WithTimeout(ctx, wire.ProbeTimeout)
	defer cancel()
	answer, err := h.Do(bound, x)
	if _, ok := errors.AsType[*wire.NotConnectedError](err); ok || ctx.Err() != nil {
		return false, err
	}
	return err == nil && wire.ProvesStateless(answer), nil
}

// hasStatelessCode reports whether the refusal of an initialize request is a JSON-RPC
// error that a server of the stateless era returns for it (MCP 2026-07-28, Versioning,
// Backward Compatibility).
func (f *refusal) hasStatelessCode() bool {
	if f.rpc == nil {
		return false
	}
	code := f.rpc.Error.Code
	return wire.IsStatelessCode(code) || code == mcp.CodeMethodNotFound || code == mcp.CodeInvalidParams
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
