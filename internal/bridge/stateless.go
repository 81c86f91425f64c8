package bridge

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/paramheader"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// doStateless sends a request of the stateless era.
func (b *Bridge) doStateless(ctx context.Context, m *mcp.Message, meta mcp.Meta) (*mcp.Message, error) {
	if err := meta.Check(); err != nil {
		return nil, err
	}
	x := &exchange.Exchange{
		Client:  &exchange.Client{Version: mcp.Version(meta.Version), Capabilities: meta.Capabilities, Info: meta.ClientInfo},
		Request: m, Meta: meta, Peer: &peer{bridge: b, ended: ctx},
	}
	response, err := b.backend.Do(ctx, x)
	if err != nil || m.Method != mcp.MethodToolsCall || response.Error == nil || response.Error.Code != mcp.CodeHeaderMismatch {
		return response, err
	}
	// Over HTTP, arguments that the tool's schema names have to be repeated in headers (MCP
	// 2026-07-28, Streamable HTTP, Custom Headers from Tool Parameters). The call was
	// rejected before it was executed.
	if x.Headers, err = b.mirrored(ctx, x); err != nil || len(x.Headers) == 0 {
		return response, err
	}
	return b.backend.Do(ctx, x)
}

// mirrored returns the headers that repeat arguments of a tools/call.
func (b *Bridge) mirrored(ctx context.Context, call *exchange.Exchange) (http.Header, error) {
	name, found, err := mcp.LookupString(call.Request.Params, "name")
	if err != nil || !found {
		return nil, err
	}
	meta, _, err := mcp.Lookup(call.Request.Params, "_meta")
	if err != nil {
		return nil, err
	}
	definitions, err := b.tools.Definitions(ctx, name, true, func(ctx context.Context) error {
		return b.tools.List(func(params json.RawMessage) (*mcp.Message, error) {
			params, err := mcp.Set(params, meta, "_meta")
			if err != nil {
				return nil, err
			}
			list := *call
			list.Request = &mcp.Message{ID: mcp.StringID("thv-tools"), Method: mcp.MethodToolsList, Params: params}
			list.Headers = nil
			return b.backend.Do(ctx, &list)
		})
	})
	if err != nil {
		return nil, err
	}
	return paramheader.Mirror(definitions, call.Request.Params)
}
