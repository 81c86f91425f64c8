package httpconn

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// getStream is the session's standalone GET stream (MCP, Streamable HTTP, Listening for
// Messages from the Server). A server need not offer one.
type getStream struct {
	conn     *streamableConn
	disabled bool
	resumed  bool          // the session was begun by an earlier gateway process
	listen   time.Duration // see [StreamableConfig].ListenTime
	took     time.Duration // duration of the handshake
	open     atomic.Bool
	// settled is closed when the server has accepted or refused the stream; nil before it
	// is requested. Guarded by conn.mu.
	settled chan struct{}
}

// Listen implements [exchange.Conn].
func (c *streamableConn) Listen() { c.stream.openAndWait() }

// HasOwnStream reports whether the session's own stream is open.
func (c *streamableConn) HasOwnStream() bool { return c.stream.open.Load() }

// openAndWait opens the stream and keeps it open. It returns when the server has accepted
// or refused the stream, or after [StreamableConfig].ListenTime. It waits longer, for twice
// the duration of the handshake but at most [wire.FarewellTimeout], at a server that is far
// away or busy.
func (g *getStream) openAndWait() {
	settled := g.start()
	if settled == nil {
		return
	}
	timer := time.NewTimer(max(g.listen, min(2*g.took, wire.FarewellTimeout)))
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	}
}

// start opens the stream unless it was opened before. The channel is closed when the server
// has accepted or refused the stream; it is nil if none is opened.
func (g *getStream) start() <-chan struct{} {
	g.conn.mu.Lock()
	defer g.conn.mu.Unlock()
	if g.disabled || g.settled != nil {
		return g.settled
	}
	settled := make(chan struct{})
	started := g.conn.work.Go(func() {
		settle := sync.OnceFunc(func() { close(settled) })
		defer settle()
		g.keep(settle)
	})
	if started {
		g.settled = settled
	}
	return g.settled
}

// keep opens the stream again whenever it ends, until the server refuses it for good or the
// connection ends. It calls accepted when the server has accepted the stream.
func (g *getStream) keep(accepted func()) {
	var state streamState
	opened := g.resumed // a resumed session existed before
	for {
		var again bool
		resp, err := g.conn.get(g.conn.ctx, g.conn.header(), state.lastID)
		switch {
		case err != nil:
			again = true
		case resp.StatusCode == http.StatusOK && mediaType(resp) == mcp.TypeEventStream:
			opened, again = true, true
			g.open.Store(true)
			accepted()
			began := time.Now()
			_, err = g.conn.pump(newOpenStream(resp), nil, &state)
			g.open.Store(false)
			_ = resp.Body.Close()
			if time.Since(began) > wire.MaxPause {
				state.Attempts = 0
			}
		case isTransient(resp.StatusCode):
			again = true
			err = g.conn.refused(resp, "a stream for the session").err()
		default:
			g.rejected(resp, opened, state.lastID != "")
			// A server that cannot resume the stream may accept a new one. The messages
			// in between are lost, but not the later ones.
			again = state.lastID != "" && resp.StatusCode/100 == 4
			state.lastID = ""
			if opened && !again {
				g.checkSession()
			}
		}
		if !again || g.conn.ctx.Err() != nil {
			return
		}
		g.conn.log.Debug("the session's stream ended; it will be opened again", "error", err, "after", state.Pause())
		if wire.Sleep(g.conn.ctx, state.Pause()) != nil {
			return
		}
		state.Attempts++
	}
}

// checkSession sends a ping in the session; a refusal that means that the session is lost
// ends it. A server that offered a stream and no longer does may have been replaced.
func (g *getStream) checkSession() {
	ctx, cancel := context.WithTimeout(g.conn.ctx, wire.HandshakeTimeout)
	defer cancel()
	ping := &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodPing}
	if _, err := g.conn.request(ctx, &exchange.Exchange{Request: ping}, nil); err != nil {
		g.conn.log.Debug("no sign of life in the session", "error", err)
	}
}

// rejected handles a refusal of the stream. The server may not offer one. If the stream was
// open before (opened), the refusal may mean that the session is lost. continues reports
// whether the request was to resume the stream.
func (g *getStream) rejected(resp *http.Response, opened, continues bool) {
	if resp.StatusCode/100 == 2 {
		discard(resp)
		return
	}
	refused := g.conn.refused(resp, "a stream for the session")
	if opened {
		_ = g.conn.refusedHere(refused)
	}
	switch {
	case continues:
		g.conn.log.Info("the session's stream is not continued: messages that belong to no request may be missing", "error", refused.text)
	case resp.StatusCode != http.StatusMethodNotAllowed:
		g.conn.log.Info("no stream for the session: messages that belong to no request will not arrive", "error", refused.text)
	}
}
