package wire

import (
	"context"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// NoPeer is the peer of an exchange or a session without a client. It drops notifications
// and rejects requests.
type NoPeer struct{ exchange.PeerDefaults }

// Notify implements [exchange.Peer].
func (NoPeer) Notify(*mcp.Message) {}

// Ask implements [exchange.Peer].
func (NoPeer) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no client can respond to " + q.Method}
}

// OrNoPeer returns p, or [NoPeer] if p is nil.
func OrNoPeer(p exchange.Peer) exchange.Peer {
	if p == nil {
		return NoPeer{}
	}
	return p
}

// CallPeer forwards messages to the peer of a pending request until Detach.
type CallPeer struct {
	exchange.PeerDefaults
	mu   sync.RWMutex
	peer exchange.Peer
}

// Notify implements [exchange.Peer].
func (l *CallPeer) Notify(m *mcp.Message) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.peer != nil {
		l.peer.Notify(m)
	}
}

// AwaitRoom implements [exchange.Peer].
func (l *CallPeer) AwaitRoom(ctx context.Context) error {
	l.mu.RLock()
	peer := l.peer
	l.mu.RUnlock()
	if peer == nil {
		return nil
	}
	return peer.AwaitRoom(ctx)
}

// Ask implements [exchange.Peer].
func (l *CallPeer) Ask(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	l.mu.RLock()
	peer := l.peer
	l.mu.RUnlock()
	if peer == nil {
		return nil, fmt.Errorf("the client that %s is for no longer waits", Printable(q.Method))
	}
	return peer.Ask(ctx, q)
}

// NewCallPeer returns a CallPeer that forwards to peer.
func NewCallPeer(peer exchange.Peer) *CallPeer { return &CallPeer{peer: peer} }

// Detach removes the peer. After it returns, the peer receives no more notifications, and
// later calls of Ask fail. A call of Ask that began earlier continues.
func (l *CallPeer) Detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer = nil
}

// NotDeclared returns the error for a server's request that no client declared a capability
// for (MCP, Lifecycle, Capability Negotiation).
func NotDeclared(q *mcp.Message) error {
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client did not declare a capability for " + Printable(q.Method)}
}
