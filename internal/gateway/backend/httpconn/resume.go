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

// Resume continues a session by what [streamableConn.Handle] wrote, with the
// server it was written for and no other.
func (b *Streamable) Resume(_ context.Context, _ *exchange.Client, handle []byte, session exchange.Peer) (exchange.Conn, error) {
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
	c.id, c.version, c.resumed = string(id), mcp.Version(version), true
	// Ids of the process before us must not come again: the server may still be at
	// work for it (MCP, Base Protocol, Requests).
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

// mark tells the server from others: a session's id is not for them.
func (b *Streamable) mark() []byte {
	sum := sha256.Sum256([]byte(b.cfg.URL))
	return fmt.Appendf(nil, "%x", sum[:6])
}

// Handle is the server's mark, the negotiated version and the session's id,
// which is empty when the server gave none.
func (c *streamableConn) Handle() ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Appendf(nil, "%s %s %s", c.mark, c.version, c.id), c.version != ""
}

// Leave ends the connection and leaves the session at the server.
func (c *streamableConn) Leave() error {
	c.close(false)
	return nil
}
