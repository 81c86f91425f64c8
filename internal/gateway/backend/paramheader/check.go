package paramheader

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Checks compares the Mcp-Param-* headers of stateless clients with the arguments that they
// repeat. It is used for servers that do not compare them, which are all but the HTTP
// servers of that era (MCP 2026-07-28, Streamable HTTP, Custom Headers from Tool
// Parameters, Server Behavior).
type Checks struct {
	Log *slog.Logger

	mu    sync.Mutex
	tools map[string]*Cache // by principal
}

// maxCheckedPrincipals bounds the principals whose tools are cached.
const maxCheckedPrincipals = 1000

// Of returns the cache of a principal.
func (c *Checks) Of(principal string) *Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tools[principal]
	if t == nil {
		if c.tools == nil || len(c.tools) >= maxCheckedPrincipals {
			c.tools = map[string]*Cache{}
		}
		t = NewCache(c.Log)
		c.tools[principal] = t
	}
	return t
}

// Check rejects a tools/call whose headers differ from its arguments. do sends a request of
// the gateway and returns its response.
func (c *Checks) Check(ctx context.Context, x *exchange.Exchange, do func(context.Context, *exchange.Exchange) (*mcp.Message, error)) error {
	name, found, err := mcp.LookupString(x.Request.Params, "name")
	if err != nil || !found {
		return err
	}
	meta, found, err := mcp.Lookup(x.Request.Params, "_meta")
	if err == nil && found { // the gateway's own request needs no log messages
		meta, err = mcp.Without(meta, func(key string) bool { return key == mcp.MetaLogLevel })
	}
	if err != nil {
		return err
	}
	own := x.Meta
	own.LogLevel = ""
	t := c.Of(x.Client.Principal)
	definitions, err := t.Definitions(ctx, name, false, func(ctx context.Context) error {
		return t.List(func(params json.RawMessage) (*mcp.Message, error) {
			if len(meta) > 0 {
				var err error
				if params, err = mcp.Set(params, meta, "_meta"); err != nil {
					return nil, err
				}
			}
			return do(ctx, &exchange.Exchange{
				Client: x.Client, Peer: wire.NoPeer{}, Meta: own,
				Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodToolsList, Params: params},
			})
		})
	})
	if err != nil {
		return err
	}
	return compare(definitions, x.Request.Params, x.Headers)
}

// compare compares the headers of a call with its arguments.
func compare(definitions []definition, params json.RawMessage, headers http.Header) error {
	wanted, err := Mirror(definitions, params)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		want, given := wanted[d.name], headers[d.name]
		if len(want) == 0 && len(given) == 0 {
			continue
		}
		if len(want) != 1 || len(given) != 1 {
			return headerMismatch(d)
		}
		text, ok := mcp.DecodeHeader(given[0])
		expected, _ := mcp.DecodeHeader(want[0])
		if !ok || text != expected && !sameNumber(d, params, text) {
			return headerMismatch(d)
		}
	}
	return nil
}

// sameNumber reports whether text is the integer argument of d: integers are compared by
// value.
func sameNumber(d definition, params json.RawMessage, text string) bool {
	raw, found, err := mcp.Lookup(params, append([]string{"arguments"}, d.path...)...)
	if err != nil || !found || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return false
	}
	want, ok := headerText(raw)
	got, isNumber := headerText(json.RawMessage(text))
	return ok && isNumber && want == got && json.Valid([]byte(text))
}

func headerMismatch(d definition) error {
	return &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: "the " + d.name + " header must repeat the argument " + wire.Printable(strings.Join(d.path, "."))}
}
