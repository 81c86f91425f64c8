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
// It forwards log messages to the request that requested them, if there is one: several
// SDKs send them on the session's own stream. It forwards changes to subscriptions.
type unattributed struct {
	exchange.PeerDefaults
	*upChanges

	mu     sync.Mutex
	reader exchange.Peer // of the request that requested log messages, nil for none
}

func (a *unattributed) Notify(m *mcp.Message) {
	if m.Method != mcp.NotificationMessage {
		a.upChanges.Notify(m)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reader != nil {
		a.reader.Notify(m)
	}
}

// AwaitRoom implements [exchange.Peer], for the log messages of a request.
func (a *unattributed) AwaitRoom(ctx context.Context) error {
	a.mu.Lock()
	reader := a.reader
	a.mu.Unlock()
	if reader == nil {
		return nil
	}
	return reader.AwaitRoom(ctx)
}

// Group identifies the subscriptions that receive changes. A process that several sessions
// with the same Group share delivers each change to one of them only.
func (a *unattributed) Group() any { return a.upChanges }

// read sets the peer that receives log messages, nil for none. After it returns, the
// previous peer receives no more of them from a.
func (a *unattributed) read(p exchange.Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reader = p
}

// lateLogTime is how long log messages are still received after the response: the server
// may have sent them before it, but on another connection, the session's own stream.
const lateLogTime = 50 * time.Millisecond

// awaitLateLogs waits for log messages on the session's own stream, if there is one.
func (s *upSession) awaitLateLogs(ctx context.Context) {
	if conn, ok := s.Conn.(interface{ HasOwnStream() bool }); ok && conn.HasOwnStream() {
		_ = wire.Sleep(ctx, lateLogTime)
	}
}
