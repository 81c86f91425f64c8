package paramheader

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on what is cached of tools, and on the requests that list them.
const (
	maxTools    = 10_000
	maxToolName = 256
	listTime    = 30 * time.Second
	// relistTime is how long the tools are not listed again for a tool that is not in the
	// list: clients call tools that do not exist.
	relistTime = time.Minute
)

// Cache holds, for one principal, which arguments of each tool are repeated in headers. A
// server may list other tools for other principals (MCP 2026-07-28, Tools).
type Cache struct {
	log     *slog.Logger
	listing singleflight.Group

	mu     sync.Mutex
	known  map[string][]definition
	listed time.Time // when the whole list was read
	serial int       // number of calls of Forget
}

// NewCache returns an empty cache.
func NewCache(log *slog.Logger) *Cache {
	return &Cache{log: log, known: map[string][]definition{}}
}

// Forget empties the cache. It is called when the list of tools has changed.
func (t *Cache) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.listed = map[string][]definition{}, time.Time{}
	t.serial++
}

// Definitions returns the header definitions of the tool. It calls list, which reads all
// tools, if afresh is set, or if the tool is not cached and the last list is older than
// relistTime. The error is that of ctx only.
func (t *Cache) Definitions(ctx context.Context, name string, afresh bool, list func(context.Context) error) ([]definition, error) {
	t.mu.Lock()
	definitions, known := t.known[name]
	recent := time.Since(t.listed) < relistTime
	t.mu.Unlock()
	if !afresh && (known || recent) {
		return definitions, nil
	}
	_, err := wire.Shared(ctx, &t.listing, "", listTime, func(ctx context.Context) (any, error) { return nil, list(ctx) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		// A server that requires a header rejects the call without it.
		t.log.Debug("the tools cannot be listed, so none of their arguments is known to belong into headers", "error", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[name], nil
}

// List reads all pages of tools/list into the cache. ask sends one request.
func (t *Cache) List(ask func(params json.RawMessage) (*mcp.Message, error)) error {
	t.mu.Lock()
	serial := t.serial
	t.mu.Unlock()
	known := map[string][]definition{}
	err := mcp.Pages(ask, func(result json.RawMessage) error {
		_, err := t.read(result, known)
		return err
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.serial == serial {
		t.known, t.listed = known, time.Now()
	}
	return nil
}

// Pass caches the tools of a response to a client's tools/list. It returns the response
// without the tools whose definitions are invalid, which a client must exclude (MCP
// 2026-07-28, Streamable HTTP).
func (t *Cache) Pass(answer *mcp.Message) (*mcp.Message, error) {
	known := map[string][]definition{}
	result, err := t.read(answer.Result, known)
	if err != nil {
		return nil, wire.ServerGone("the server's answer to tools/list cannot be read: %v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, definitions := range known {
		if _, there := t.known[name]; there || len(t.known) < maxTools {
			t.known[name] = definitions
		}
	}
	return mcp.NewResult(answer.ID, result), nil
}

// read adds the tools of a ListToolsResult to known, and returns the result
// without those that are invalid.
func (t *Cache) read(result json.RawMessage, known map[string][]definition) (json.RawMessage, error) {
	raw, found, err := mcp.Lookup(result, "tools")
	if err != nil || !found {
		return result, err
	}
	var tools []json.RawMessage
	if err := json.Unmarshal(raw, &tools); err != nil {
		return nil, err
	}
	valid := make([]json.RawMessage, 0, len(tools))
	for _, tool := range tools {
		name, schema, err := toolOf(tool)
		var definitions []definition
		if err == nil {
			definitions, err = ReadSchema(schema)
		}
		if err != nil {
			t.log.Warn("a tool is left out of the list, because what it wants in headers cannot be understood", "tool", wire.Printable(name), "error", wire.Printable(err.Error()))
			continue
		}
		valid = append(valid, tool)
		if len(known) < maxTools && len(name) <= maxToolName {
			known[name] = definitions
		}
	}
	if len(valid) == len(tools) {
		return result, nil
	}
	if raw, err = json.Marshal(valid); err != nil {
		return nil, err
	}
	return mcp.Replace(result, raw, "tools")
}

func toolOf(tool json.RawMessage) (name string, schema json.RawMessage, err error) {
	if name, _, err = mcp.LookupString(tool, "name"); err == nil {
		schema, _, err = mcp.Lookup(tool, "inputSchema")
	}
	return name, schema, err
}
