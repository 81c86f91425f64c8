package translate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// upPeer sends the server's messages during one call to its client of the stateless era.
type upPeer struct {
	exchange.Peer
	session *upSession
	client  *exchange.Client
	call    context.Context // ends with the call
	over    context.CancelFunc
	setting sync.Mutex // held while another log level is set at the server

	mu    sync.Mutex
	level string // lowest level of the log messages that the request requests, "" for none
}

// Notify forwards the notifications that the stateless era has. A request without a log
// level receives no log messages (MCP 2026-07-28, Logging).
func (p *upPeer) Notify(m *mcp.Message) {
	switch {
	case m.Method == mcp.NotificationMessage && !mcp.GetsLog(m, p.logLevel()):
	case m.Method == mcp.NotificationElicitationCompleted:
	case subscribe.IsChange(m.Method):
		p.session.changes.Notify(m) // a change belongs to subscriptions, on whichever stream it is sent
	default:
		p.Peer.Notify(m)
	}
}

func (p *upPeer) logLevel() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.level
}

// levelTime bounds the wait for a server to confirm another log level during a call: a
// server that waits for the client's response may read nothing else before it.
const levelTime = 2 * time.Second

// logFrom sets the log level of a further request that continues the call (MCP 2026-07-28,
// Multi Round-Trip Requests). Unless the level is "" or the call has ended, it also sets
// the level at the server.
func (p *upPeer) logFrom(level string) {
	p.mu.Lock()
	p.level = level
	p.mu.Unlock()
	if level == "" {
		return
	}
	p.setting.Lock()
	defer p.setting.Unlock()
	ctx, cancel := context.WithTimeout(p.call, levelTime)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	// p is the peer of this request too: what the server sends for the call meanwhile may be
	// attributed to it.
	if err := p.session.logAt(ctx, p.client, level, p); err != nil {
		p.session.unsure = true
		p.session.changes.log.Debug("the log level was not set at the server", "error", err)
	}
}

// end ends the call. After it returns, no log level is set at the server for the call: the
// session may then serve another request.
func (p *upPeer) end() {
	p.over()
	p.setting.Lock()
	defer p.setting.Unlock()
}

// Ask forwards a server's request to the client. It rejects an elicitation in a mode that
// the client did not declare, and converts the others to the stateless era.
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

// logAt sets the lowest level of the server's log messages in this session. peer receives
// the server's messages meanwhile and may be nil.
func (s *upSession) logAt(ctx context.Context, client *exchange.Client, level string, peer exchange.Peer) error {
	if s.level == level {
		return nil
	}
	_, declared, err := mcp.Lookup(s.capabilities, "logging")
	if err != nil {
		return wire.ServerGone("the server's capabilities cannot be read: %v", err)
	}
	if !declared {
		return nil // the server sends no log messages
	}
	answer, err := s.Do(ctx, &exchange.Exchange{
		Client:  client,
		Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodSetLevel, Params: json.RawMessage(`{"level":"` + level + `"}`)},
		Peer:    peer,
	})
	if err != nil {
		return err
	}
	if answer.Error == nil { // otherwise the server's level is as before
		s.level = level
	}
	return nil
}
