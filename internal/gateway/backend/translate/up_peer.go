package translate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// upPeer is the way back to a client of the stateless era.
type upPeer struct {
	exchange.Peer
	session *upSession
	client  *exchange.Client
	call    context.Context // ends with the call
	over    context.CancelFunc
	telling sync.Mutex // held while the server is told of another log level

	mu    sync.Mutex
	level string // of log messages that the request asks for; "" for none
}

// Notify passes on what the stateless era has. A request that names no log level
// gets no log messages (MCP 2026-07-28, Logging).
func (p *upPeer) Notify(m *mcp.Message) {
	switch {
	case m.Method == mcp.NotificationMessage && !mcp.GetsLog(m, p.logLevel()):
	case m.Method == mcp.NotificationElicitationCompleted:
	case wire.IsChange(m.Method):
		p.session.hub.Notify(m) // it belongs to subscriptions, wherever a server sends it
	default:
		p.Peer.Notify(m)
	}
}

func (p *upPeer) logLevel() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.level
}

// levelTime bounds the wait for a server to take another log level in the middle of
// a call: one that waits for an answer may not read anything else before it has it.
const levelTime = 2 * time.Second

// logFrom makes p the way back to a request that goes on with the call, and asks for
// other log messages than the one before. It does nothing when the call is over.
func (p *upPeer) logFrom(level string) {
	p.mu.Lock()
	p.level = level
	p.mu.Unlock()
	if level == "" {
		return
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	ctx, cancel := context.WithTimeout(p.call, levelTime)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	// What the server asks meanwhile could be taken for something of this request.
	if err := p.session.logAt(ctx, p.client, level, p); err != nil {
		p.session.unsure = true
		p.session.hub.log.Debug("the server was not told of another log level", "error", err)
	}
}

// end returns when the server is told nothing more for the call: its session may be
// another's then.
func (p *upPeer) end() {
	p.over()
	p.telling.Lock()
	defer p.telling.Unlock()
}

// Ask passes on a question.
func (p *upPeer) Ask(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	if q.Method == mcp.MethodElicitation {
		mode, _, err := mcp.LookupString(q.Params, "mode")
		if err != nil {
			return nil, err
		}
		if !canElicit(p.client.Capabilities, mode) {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the client did not declare that it can be asked in this mode"}
		}
		params, err := statelessElicitation(q.Params)
		if err != nil {
			return nil, err
		}
		q = &mcp.Message{ID: q.ID, Method: q.Method, Params: params}
	}
	return p.Peer.Ask(ctx, q)
}

// logAt has the server log from a level on. peer may be nil.
func (s *upSession) logAt(ctx context.Context, client *exchange.Client, level string, peer exchange.Peer) error {
	if s.level == level {
		return nil
	}
	_, declared, err := mcp.Lookup(s.capabilities, "logging")
	if err != nil {
		return wire.ServerGone("the server's capabilities cannot be read: %v", err)
	}
	if !declared {
		return nil // it does not log to clients
	}
	answer, err := s.Do(ctx, &exchange.Exchange{
		Client:  client,
		Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodSetLevel, Params: json.RawMessage(`{"level":"` + level + `"}`)},
		Peer:    peer,
	})
	if err != nil {
		return err
	}
	if answer.Error == nil { // else it logs as it likes
		s.level = level
	}
	return nil
}
