package httpconn

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Stateless sends requests to a streamable HTTP server of version 2026-07-28 (MCP
// 2026-07-28, basic/transports, Streamable HTTP). Every exchange is one independent POST:
// it has the client's own id, no state is kept between exchanges, and closing the HTTP
// response cancels the request. So there is no table of pending requests and no lock. No
// request is sent twice, and no stream is resumed.
type Stateless struct {
	remote    *remote
	err       error // why remote is nil
	transport http.RoundTripper
	log       *slog.Logger

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work wire.Group // reads the rest of streams after their response

	// questioned: it has been logged that the server sends requests, which this era
	// forbids.
	questioned atomic.Bool
}

// NewStateless returns the [Stateless] of the server at cfg.URL. cfg.Transport and cfg.Log
// must be set.
func NewStateless(cfg StreamableConfig) wire.Stateless {
	h := &Stateless{transport: cfg.Transport}
	h.remote, h.err = newRemote(cfg.URL, cfg.Transport)
	h.log = cfg.Log
	if h.err == nil {
		h.log = cfg.Log.With("server", h.remote.String())
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Do sends one request and returns its response, on the caller's goroutine.
func (h *Stateless) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	if h.err != nil {
		return nil, h.err
	}
	header, err := standardHeaders(x)
	if err != nil {
		return nil, err
	}
	// The stream may be read to its end after the response, when ctx has ended.
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	closed := context.AfterFunc(h.ctx, cancel)
	ends := true
	defer func() {
		if ends {
			closed()
			cancel()
		}
	}()
	if h.ctx.Err() != nil {
		return nil, wire.ErrClosed(h.remote.String())
	}
	resp, err := h.remote.post(request, h.remote.url, header, x.Request)
	if err != nil {
		return nil, h.ending(ctx, err)
	}
	answer, rest, err := h.read(request, x, resp)
	if !rest {
		_ = resp.Body.Close()
		return answer, h.ending(ctx, err)
	}
	ends = !h.work.Go(func() {
		defer cancel()
		defer closed()
		drain(resp, cancel)
	})
	if ends {
		_ = resp.Body.Close()
	}
	return answer, nil
}

// ending returns err, or the reason if the client or the gateway ended the exchange.
func (h *Stateless) ending(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case h.ctx.Err() != nil:
		return wire.ErrClosed(h.remote.String())
	}
	return err
}

// drain reads the rest of a stream after its response, so that the connection can be
// reused. It closes a stream that does not end within drainTime or maxErrorBody bytes.
func drain(resp *http.Response, cancel context.CancelFunc) {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	discard(resp)
}

// read reads the response to x. rest reports that it arrived on an event stream that has
// not ended yet.
func (h *Stateless) read(ctx context.Context, x *exchange.Exchange, resp *http.Response) (answer *mcp.Message, rest bool, err error) {
	method := x.Request.Method
	if resp.StatusCode != http.StatusOK {
		answer, err = h.refusal(x, resp)
		return answer, false, err
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		// net/http decodes the encoding that it requests itself.
		return nil, false, wire.ServerGone("the server at %s answered %s with content encoding %q, which was not requested", h.remote, method, wire.Printable(coding))
	}
	switch t := mediaType(resp); t {
	case mcp.TypeJSON:
		answer, err = h.readAnswer(x, resp)
		return answer, false, err
	case mcp.TypeEventStream:
		answer, err = h.readStream(ctx, x, resp)
		return answer, err == nil, err
	default:
		return nil, false, wire.ServerGone("the server at %s answered %s with content type %q instead of JSON or an event stream; is this the URL of an MCP server?",
			h.remote, method, wire.Printable(t))
	}
}

// readAnswer reads a response that is a JSON body.
func (h *Stateless) readAnswer(x *exchange.Exchange, resp *http.Response) (*mcp.Message, error) {
	body, err := h.remote.readJSON(resp)
	if err != nil {
		return nil, err
	}
	m, err := mcp.Parse(body)
	if err != nil {
		return nil, wire.ServerGone("the server at %s answered %s with something that is not a JSON-RPC message: %v", h.remote, x.Request.Method, err)
	}
	if m.Kind() != mcp.Response {
		return nil, wire.ServerGone("the server at %s answered %s with a %s instead of a response", h.remote, x.Request.Method, wire.Printable(m.Method))
	}
	return h.settle(x, m)
}

// readStream reads events until the response, which is the last message on a stream (MCP
// 2026-07-28, Streamable HTTP).
func (h *Stateless) readStream(ctx context.Context, x *exchange.Exchange, resp *http.Response) (*mcp.Message, error) {
	peer, method := wire.OrNoPeer(x.Peer), x.Request.Method
	strays := 0
	for r := mcp.NewEventReader(resp.Body, mcp.MaxEvent); ; {
		ev, err := r.Next()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, mcp.ErrEventTooLarge):
			return nil, wire.ServerGone("the server at %s cannot be understood answering %s: %v", h.remote, method, err)
		case err != nil:
			// Streams of this era cannot be resumed.
			return nil, wire.ServerGone("the server at %s ended the stream without answering %s", h.remote, method)
		case ev.Name != mcp.EventMessage || len(ev.Data) == 0:
			continue
		}
		m, err := mcp.Parse(ev.Data)
		if err != nil {
			if wire.LooksLikeJSON(ev.Data) {
				return nil, wire.ServerGone("the server at %s cannot be understood answering %s: %v: %v", h.remote, method, errNotMessage, err)
			}
			if strays++; strays == 1 {
				h.log.Warn("the server sent an event that is not a JSON-RPC message; it is skipped", "method", wire.Printable(method), "error", err)
			}
			continue
		}
		switch m.Kind() {
		case mcp.Response:
			return h.settle(x, m)
		case mcp.Notification:
			// A server sends this one over stdio only (MCP 2026-07-28, Cancellation).
			if m.Method != mcp.NotificationCancelled {
				peer.Notify(m)
			}
		case mcp.Request:
			if !h.questioned.Swap(true) {
				h.log.Warn("the server sends requests to its client, which MCP 2026-07-28 forbids; they are ignored", "method", wire.Printable(m.Method))
			}
		}
	}
}

// settle checks that m is the response to x. An error without an id is one for a request
// that the server could not read, which is x: it is the only one that was sent.
func (h *Stateless) settle(x *exchange.Exchange, m *mcp.Message) (*mcp.Message, error) {
	if !m.ID.Means(x.Request.ID) && !wire.IsUnidentified(m) {
		return nil, wire.ServerGone("the server at %s sent the response to another request than %s", h.remote, x.Request.Method)
	}
	if wire.IsOtherEra(m.Error) {
		return nil, &wire.OtherEraError{Err: m.Error}
	}
	m.ID = x.Request.ID
	return m, nil
}

// refusal reads an HTTP response whose status is not 200. It returns the JSON-RPC response
// in its body, or the reason why there is none.
func (h *Stateless) refusal(x *exchange.Exchange, resp *http.Response) (*mcp.Message, error) {
	method := x.Request.Method
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return nil, wire.ServerGone("the server at %s accepted %s with HTTP %d but sent no response", h.remote, method, resp.StatusCode)
	}
	f := h.remote.refused(resp, method)
	switch {
	case f.aboutAccess():
		return nil, f.err()
	case f.isAnswer(x.Request.ID):
		return h.settle(x, f.rpc)
	case wire.IsEraStatus(f.status):
		return nil, &wire.OtherEraError{Err: f.err()}
	default:
		return nil, f.err()
	}
}

// Close rejects later exchanges and ends the pending ones.
func (h *Stateless) Close() error {
	h.stop()
	h.work.Close()
	(&http.Client{Transport: h.transport}).CloseIdleConnections()
	return nil
}
