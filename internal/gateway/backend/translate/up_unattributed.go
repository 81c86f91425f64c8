package translate

import (
	"context"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// unattributed receives the notifications of a session that belong to no pending request.
// Log messages among them are forwarded to the request that asked for log messages, if
// there is one: several SDKs send them on the session's own stream.
type unattributed struct {
	exchange.PeerDefaults
	*listeners

	mu     sync.Mutex
	reader exchange.Peer // of the request that asked for log messages, nil for none
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

// Group identifies the subscriptions that receive changes: sessions that share a process
// receive each of them once.
func (a *unattributed) Group() any { return a.listeners }

// read sets the peer that receives log messages, nil for none. After it returns the
// former peer receives no more.
func (a *unattributed) read(p exchange.Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reader = p
}

// lateLogTime is how long log messages are still received after the response: those that
// the server sent before it on the session's own stream arrive on another connection.
const lateLogTime = 50 * time.Millisecond

// awaitLateLogs waits for log messages on the session's own stream, if there is one.
func (s *upSession) awaitLateLogs(ctx context.Context) {
	if conn, ok := s.Conn.(interface{ HasOwnStream() bool }); ok && conn.HasOwnStream() {
		_ = wire.Sleep(ctx, lateLogTime)
	}
}
