package translate

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/paramheader"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// send sends one request of the stateless era, whose _meta is meta. It adds the Mcp-Param-* headers to a
// tools/call, and caches the tool definitions in responses to tools/list.
func (c *downConn) send(ctx context.Context, m *mcp.Message, meta mcp.Meta, peer exchange.Peer) (*mcp.Message, error) {
	tools := c.principal.tools
	mirrored := tools != nil && m.Method == mcp.MethodToolsCall
	var headers http.Header
	var err error
	if mirrored {
		if headers, err = c.headersFor(ctx, m.Params, false); err != nil {
			return nil, err
		}
	}
	answer, err := c.sendWith(ctx, m, meta, headers, peer)
	if err != nil {
		return nil, err
	}
	if mirrored && answer.Error != nil && answer.Error.Code == mcp.CodeHeaderMismatch {
		// The server rejected the call before processing it (MCP 2026-07-28, Streamable
		// HTTP). The definition of the tool may have changed since it was cached.
		if headers, err = c.headersFor(ctx, m.Params, true); err != nil {
			return nil, err
		}
		again := *m
		again.ID = c.clients.newID()
		return c.sendWith(ctx, &again, meta, headers, peer)
	}
	if tools != nil && m.Method == mcp.MethodToolsList && answer.Error == nil {
		return tools.Pass(answer)
	}
	return answer, nil
}

func (c *downConn) sendWith(ctx context.Context, m *mcp.Message, meta mcp.Meta, headers http.Header, peer exchange.Peer) (*mcp.Message, error) {
	return c.clients.send(ctx, &exchange.Exchange{Client: c.client, Request: m, Meta: meta, Headers: headers, Peer: wire.OrNoPeer(peer)})
}

// headersFor returns the headers of a tools/call. It lists the tools first if the called
// tool is not in the cache, or if afresh is set.
func (c *downConn) headersFor(ctx context.Context, params json.RawMessage, afresh bool) (http.Header, error) {
	name, found, err := mcp.LookupString(params, "name")
	if err != nil || !found {
		return nil, err
	}
	t := c.principal.tools
	definitions, err := t.Definitions(ctx, name, afresh, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.principal.ctx, cancel)()
		return t.List(func(params json.RawMessage) (*mcp.Message, error) {
			params, err := c.introduction.Into(params, "")
			if err != nil {
				return nil, err
			}
			return c.clients.send(ctx, &exchange.Exchange{
				Client: c.client, Peer: wire.NoPeer{},
				Request: &mcp.Message{ID: c.clients.newID(), Method: mcp.MethodToolsList, Params: params},
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return paramheader.Mirror(definitions, params)
}
