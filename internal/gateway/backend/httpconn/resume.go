package httpconn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Resume continues the session of a handle that [streamableConn.Handle] returned. It
// rejects a handle of another server.
func (b *Streamable) Resume(ctx context.Context, _ *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error) {
	server, rest, _ := bytes.Cut(handle, []byte(" "))
	version, id, ok := bytes.Cut(rest, []byte(" "))
	if !ok || !bytes.Equal(server, b.mark()) || !mcp.Version(version).IsSession() || !isVisibleASCII(string(id)) {
		return nil, exchange.ErrNotResumable
	}
	r, err := newRemote(b.cfg.URL, b.cfg.Transport)
	if err != nil {
		return nil, err
	}
	c := b.newConn(r, session)
	c.callers.Attach(ctx)
	c.id, c.version, c.stream.resumed = string(id), mcp.Version(version), true
	// Ids of the earlier gateway process must not be reused: the server may still work on
	// its requests (MCP, Base Protocol, Requests).
	c.pending.Last.Store(time.Now().UnixMicro())
	if c.info, err = json.Marshal(map[string]any{"protocolVersion": c.version}); err != nil {
		return nil, err
	}
	if err := b.track(c.ctx, c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// mark identifies the server by a hash of its URL: a session id is never sent to another
// server.
func (b *Streamable) mark() []byte {
	sum := sha256.Sum256([]byte(b.cfg.URL))
	return fmt.Appendf(nil, "%x", sum[:6])
}

// Handle returns the server's mark, the negotiated version and the session id, which is
// empty if the server issued none. It returns false before the handshake.
func (c *streamableConn) Handle() ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Appendf(nil, "%s %s %s", c.mark, c.version, c.id), c.version != ""
}

// Leave closes the connection without ending the session at the server.
func (c *streamableConn) Leave() error {
	c.close(false)
	return nil
}
