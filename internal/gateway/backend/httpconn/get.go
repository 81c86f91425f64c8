package httpconn

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Listen opens the session's standalone GET stream (MCP, Streamable HTTP, Listening for
// Messages from the Server) and keeps it open; a server need not offer one. Listen returns
// when the server has accepted or refused the stream, or after
// [StreamableConfig].ListenTime. It waits longer, for twice the duration of the handshake
// but at most [wire.FarewellTimeout], at a server that is far away or busy.
func (c *streamableConn) Listen() {
	settled := c.startListening()
	if settled == nil {
		return
	}
	timer := time.NewTimer(max(c.listen, min(2*c.took, wire.FarewellTimeout)))
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	}
}

// HasOwnStream reports whether the session's own stream is open.
func (c *streamableConn) HasOwnStream() bool { return c.streams.Load() }

// startListening opens the stream unless it was opened before. The channel is closed when
// the server has accepted or refused the stream; it is nil if none is opened.
func (c *streamableConn) startListening() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noStream || c.settled != nil {
		return c.settled
	}
	settled := make(chan struct{})
	started := c.work.Go(func() {
		settle := sync.OnceFunc(func() { close(settled) })
		defer settle()
		c.keepListening(settle)
	})
	if started {
		c.settled = settled
	}
	return c.settled
}

func (c *streamableConn) keepListening(accepted func()) {
	var state streamState
	opened := c.resumed // a resumed session existed before
	for {
		var again bool
		resp, err := c.get(c.ctx, c.header(), state.lastID)
		switch {
		case err != nil:
			again = true
		case resp.StatusCode == http.StatusOK && mediaType(resp) == mcp.TypeEventStream:
			opened, again = true, true
			c.streams.Store(true)
			accepted()
			began := time.Now()
			_, err = c.pump(newOpenStream(resp), nil, &state)
			c.streams.Store(false)
			_ = resp.Body.Close()
			if time.Since(began) > wire.MaxPause {
				state.Attempts = 0
			}
		case isTransient(resp.StatusCode):
			again = true
			err = c.refused(resp, "a stream for the session").err()
		default:
			c.streamRefused(resp, opened, state.lastID != "")
			// A server that cannot resume the stream may accept a new one. The messages
			// in between are lost, but not the later ones.
			again = state.lastID != "" && resp.StatusCode/100 == 4
			state.lastID = ""
			if opened && !again {
				c.checkSession()
			}
		}
		if !again || c.ctx.Err() != nil {
			return
		}
		c.log.Debug("the session's stream ended; it will be opened again", "error", err, "after", state.Pause())
		if wire.Sleep(c.ctx, state.Pause()) != nil {
			return
		}
		state.Attempts++
	}
}

// checkSession sends a ping in the session; a refusal that means that the session is lost
// ends it. A server that offered a stream and no longer does may have been replaced.
func (c *streamableConn) checkSession() {
	ctx, cancel := context.WithTimeout(c.ctx, wire.HandshakeTimeout)
	defer cancel()
	ping := &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodPing}
	if _, err := c.request(ctx, &exchange.Exchange{Request: ping}, nil); err != nil {
		c.log.Debug("no sign of life in the session", "error", err)
	}
}

// streamRefused handles a refusal of the session's stream. The server may not offer one.
// If the stream was open before (opened), the refusal may mean that the session is lost.
// continues reports whether the request was to resume the stream.
func (c *streamableConn) streamRefused(resp *http.Response, opened, continues bool) {
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return
	}
	refused := c.refused(resp, "a stream for the session")
	if opened {
		_ = c.refusedHere(refused)
	}
	switch {
	case continues:
		c.log.Info("the session's stream is not continued: messages that belong to no request may be missing", "error", refused.text)
	case resp.StatusCode != http.StatusMethodNotAllowed:
		c.log.Info("no stream for the session: messages that belong to no request will not arrive", "error", refused.text)
	}
}
