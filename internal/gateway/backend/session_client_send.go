package backend

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// send sends one request of the stateless era and looks at what passes through
// for what tools want in headers.
func (c *sessionConn) send(ctx context.Context, m *mcp.Message, peer gateway.Peer) (*mcp.Message, error) {
	tools := c.room.tools
	mirrored := tools != nil && m.Method == mcp.MethodToolsCall
	var headers http.Header
	var err error
	if mirrored {
		if headers, err = tools.headersFor(ctx, c, m.Params, false); err != nil {
			return nil, err
		}
	}
	answer, err := c.sendWith(ctx, m, headers, peer)
	if err != nil {
		return nil, err
	}
	if mirrored && answer.Error != nil && answer.Error.Code == mcp.CodeHeaderMismatch {
		// It was refused before any work (MCP 2026-07-28, Streamable HTTP): the tool
		// may have changed meanwhile.
		if headers, err = tools.headersFor(ctx, c, m.Params, true); err != nil {
			return nil, err
		}
		again := *m
		again.ID = c.clients.newID()
		return c.sendWith(ctx, &again, headers, peer)
	}
	if tools != nil && m.Method == mcp.MethodToolsList && answer.Error == nil {
		return tools.pass(answer)
	}
	return answer, nil
}

func (c *sessionConn) sendWith(ctx context.Context, m *mcp.Message, headers http.Header, peer gateway.Peer) (*mcp.Message, error) {
	answer, err := c.clients.modern.Do(ctx, &gateway.Exchange{Client: c.client, Request: m, Headers: headers, Peer: orNoPeer(peer)})
	return answer, c.lostBy(ctx, err)
}
