package httpconn

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxAttempts bounds the consecutive reconnections without a new event for a pending
// request. Those of the session's own stream are not bounded.
const maxAttempts = 8

// errNotMessage ends a stream on which the server sent data that is not a message.
var errNotMessage = errors.New("it sent something that is not a JSON-RPC message")

// call is one request of a session and the HTTP responses that carry its response: that to
// the POST, and those that resume its stream.
type call struct {
	*streamableConn
	own *correlate.PendingRequest
}

// request sends x and waits for its response, which may arrive in the HTTP response, on a
// stream that resumes it, or on the session's stream. first, if not nil, receives the
// successful HTTP response before its body is read. All of this runs on the caller's
// goroutine, except reading a stream after the response.
func (c *streamableConn) request(ctx context.Context, x *exchange.Exchange, first func(*http.Response) error) (*mcp.Message, error) {
	line := wire.NewCallPeer(x.Peer)
	defer line.Detach()
	f, out, err := c.pending.Add(x, line)
	if err != nil {
		return nil, err
	}
	if !c.work.Enter() {
		c.pending.Remove(f)
		return nil, wire.ErrClosed(c.remote.String())
	}
	defer c.work.Leave()
	// The HTTP request may continue after this call, until its stream ends. It is cancelled
	// when ctx ends during the call, or when f ends by other means than this stream.
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, cancel)
	c.pending.OnEnd(f, cancel)
	call := &call{streamableConn: c, own: f}
	rest, err := call.sendAndRead(request, out, first)
	unwatch()
	cancelled := false
	if ctx.Err() != nil {
		line.Detach()
		cancelled = c.abandon(f)
	}
	if !cancelled {
		c.pending.Settle(f, err)
	}
	if rest == nil || !c.work.Go(func() { call.finish(rest, cancel) }) {
		cancel()
	}
	if cancelled {
		return nil, ctx.Err()
	}
	return f.Answer, f.Err
}

// sendAndRead POSTs out and reads until the call has its response. rest is the remaining
// stream on which the response arrived, nil for none. The error is the reason why there
// will be no response; it has no effect if the call has one.
func (c *call) sendAndRead(ctx context.Context, out *mcp.Message, first func(*http.Response) error) (rest *openStream, err error) {
	resp, err := c.post(ctx, c.url, c.header(), out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.refusal(resp)
	}
	if first != nil {
		if err := first(resp); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
	}
	switch t := mediaType(resp); t {
	case mcp.TypeJSON:
		defer func() { _ = resp.Body.Close() }()
		return nil, c.readBody(resp)
	case mcp.TypeEventStream:
		return c.readStream(ctx, resp)
	default:
		_ = resp.Body.Close()
		return nil, wire.ServerGone("the server at %s answered %s with content type %q instead of JSON or an event stream; is this the URL of an MCP server?",
			c.remote, c.own.Method, wire.Printable(t))
	}
}

// refusal handles an HTTP response whose status is not 200. A JSON-RPC error in its body is
// the response to the call, unless it means that the session is lost.
func (c *call) refusal(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return wire.ServerGone("the server at %s accepted %s with HTTP %d but sent no response", c.remote, c.own.Method, resp.StatusCode)
	}
	refused := c.refused(resp, c.own.Method)
	if refused.rpc != nil && !c.isLostBy(refused) && c.pending.DeliverTo(c.own, refused.rpc) {
		return nil
	}
	return c.refusedHere(refused)
}

// readBody reads a response that is a JSON body.
func (c *call) readBody(resp *http.Response) error {
	body, err := c.readJSON(resp)
	if err != nil {
		return err
	}
	messages, err := c.parse(body)
	if err != nil {
		return wire.ServerGone("the server at %s answered %s with something that is not a JSON-RPC message: %v", c.remote, c.own.Method, err)
	}
	c.handle(c.own, messages)
	if !c.pending.Has(c.own) {
		return nil
	}
	return wire.ServerGone("the server at %s sent the response to another request than %s", c.remote, c.own.Method)
}

// readStream reads the stream of the call, and those that resume it, until the call has its
// response.
func (c *call) readStream(ctx context.Context, resp *http.Response) (rest *openStream, err error) {
	var state streamState
	s := newOpenStream(resp)
	for {
		answered, broken := c.pump(s, c.own, &state)
		if answered {
			return s, nil
		}
		_ = s.body.Close()
		if s, err = c.continued(ctx, broken, &state); s == nil {
			return nil, err
		}
	}
}

// continued resumes the stream of the call, which ended with the error broken. It returns
// nil if the stream cannot be resumed or the call is no longer pending.
func (c *call) continued(ctx context.Context, broken error, state *streamState) (*openStream, error) {
	if c.pending.Has(c.own) && (errors.Is(broken, mcp.ErrEventTooLarge) || errors.Is(broken, errNotMessage)) {
		return nil, wire.ServerGone("the server at %s cannot be understood answering %s: %v", c.remote, c.own.Method, broken)
	}
	for c.pending.Has(c.own) {
		if state.lastID == "" || state.Attempts >= maxAttempts {
			return nil, wire.ServerGone("the server at %s ended the stream without answering %s", c.remote, c.own.Method)
		}
		if err := wire.Sleep(ctx, state.Pause()); err != nil {
			return nil, err
		}
		state.Attempts++
		if s, again, err := c.resume(ctx, state); !again {
			return s, err
		}
	}
	return nil, nil
}

// resume sends one GET with Last-Event-ID for the call's stream (MCP 2025-11-25, Streamable
// HTTP, Resumability and Redelivery). again reports that it failed and that another attempt
// may succeed.
func (c *call) resume(ctx context.Context, state *streamState) (s *openStream, again bool, err error) {
	resp, err := c.get(ctx, c.header(), state.lastID)
	if err != nil {
		return nil, true, err
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp) == mcp.TypeEventStream {
		return newOpenStream(resp), false, nil
	}
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return nil, false, wire.ServerGone("the server at %s ended the stream without answering %s and does not continue it", c.remote, c.own.Method)
	}
	err = c.refusedHere(c.refused(resp, "to continue the answer to "+c.own.Method))
	return nil, isTransient(resp.StatusCode), err
}

// finish reads the rest of the stream on which the response arrived. If the server ends the
// stream within drainTime, its connection is reused.
func (c *call) finish(s *openStream, cancel context.CancelFunc) {
	defer cancel()
	defer func() { _ = s.body.Close() }()
	defer context.AfterFunc(c.ctx, cancel)()
	defer time.AfterFunc(drainTime, cancel).Stop()
	_, _ = c.pump(s, c.own, &streamState{})
}
