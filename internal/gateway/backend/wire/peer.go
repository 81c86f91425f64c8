package wire

import (
	"context"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// NoPeer is the peer of an exchange or a session that has none: it hears nothing and
// answers nothing.
type NoPeer struct{ exchange.PeerDefaults }

// Notify implements [exchange.Peer].
func (NoPeer) Notify(*mcp.Message) {}

// Ask implements [exchange.Peer].
func (NoPeer) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no client is there to answer " + q.Method}
}

// OrNoPeer is p, or noPeer for nil.
func OrNoPeer(p exchange.Peer) exchange.Peer {
	if p == nil {
		return NoPeer{}
	}
	return p
}

// CallPeer is the way back to a client for as long as it waits.
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

// NewCallPeer is the way back to peer.
func NewCallPeer(peer exchange.Peer) *CallPeer { return &CallPeer{peer: peer} }

// Detach returns when nothing goes to the peer any more.
func (l *CallPeer) Detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer = nil
}

// NotDeclared answers a question that no client said it could be asked (MCP,
// Lifecycle, Capability Negotiation).
func NotDeclared(q *mcp.Message) error {
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client did not declare that it can be asked for " + Printable(q.Method)}
}
