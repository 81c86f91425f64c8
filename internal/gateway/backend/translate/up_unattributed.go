package translate

import (
	"context"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// unattributed hears what belongs to none of the requests in a session. Log messages among
// that are about the request that wants them, if there is one: what a server sends on
// the session's own stream before it answers may come here after the answer, which
// takes another connection.
type unattributed struct {
	exchange.PeerDefaults
	*listeners

	mu     sync.Mutex
	reader exchange.Peer // of the request that wants the log, nil for none
}

func (a *unattributed) Notify(m *mcp.Message) {
	if m.Method != mcp.NotificationMessage {
		a.listeners.Notify(m)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reader != nil {
		a.reader.Notify(m)
	}
}

// read says who wants the log now, nil for nobody. When it returns, nobody else hears
// of it any more.
func (a *unattributed) read(p exchange.Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reader = p
}

// How long log messages that may still be on their way are waited for: at most, and
// when all that was to come is here and needs only be read.
const (
	catchUpTime = time.Second
	readTime    = 20 * time.Millisecond
)

// catchUp returns when what the server had said on the session's own stream by the time
// it answered has come, which it has, as far as can be known, when the server has
// answered a ping since (MCP 2025-11-25, Ping: it must do so promptly). Log messages
// meanwhile are for p.
func (s *upSession) catchUp(ctx context.Context, client *exchange.Client, p exchange.Peer) {
	conn, ok := s.Conn.(interface{ HasOwnStream() bool })
	if !ok || s.silent || !conn.HasOwnStream() {
		return
	}
	bound, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	_, err := s.Do(bound, &exchange.Exchange{Client: client, Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodPing}, Peer: p})
	if err != nil {
		s.silent = ctx.Err() == nil // and not waited for again
		return
	}
	_ = wire.Sleep(ctx, readTime)
}
