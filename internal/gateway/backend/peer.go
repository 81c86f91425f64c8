package backend

import (
	"context"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// noPeer is the peer of an exchange or a session that has none: it hears nothing and
// answers nothing.
type noPeer struct{ exchange.PeerDefaults }

func (noPeer) Notify(*mcp.Message) {}

func (noPeer) Ask(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no client is there to answer " + q.Method}
}

// orNoPeer is p, or noPeer for nil.
func orNoPeer(p exchange.Peer) exchange.Peer {
	if p == nil {
		return noPeer{}
	}
	return p
}

// leash is the way back to a client for as long as it waits.
type leash struct {
	exchange.PeerDefaults
	mu   sync.RWMutex
	peer exchange.Peer
}

func (l *leash) Notify(m *mcp.Message) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.peer != nil {
		l.peer.Notify(m)
	}
}

func (l *leash) Ask(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	l.mu.RLock()
	peer := l.peer
	l.mu.RUnlock()
	if peer == nil {
		return nil, fmt.Errorf("the client that %s is for no longer waits", printable(q.Method))
	}
	return peer.Ask(ctx, q)
}

// drop returns when nothing goes to the peer any more.
func (l *leash) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer = nil
}

// notDeclared answers a question that no client said it could be asked (MCP,
// Lifecycle, Capability Negotiation).
func notDeclared(q *mcp.Message) error {
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client did not declare that it can be asked for " + printable(q.Method)}
}
