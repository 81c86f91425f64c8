package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Hints are the annotations of a tool (MCP, Schema, ToolAnnotations). They are statements of
// the server and not verified.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// defaultHints are those of a tool without annotations (MCP, Schema, ToolAnnotations).
var defaultHints = Hints{Destructive: true, OpenWorld: true}

// ReadHints reads the member annotations of a tool. Members that are not boolean have their
// defaults.
func ReadHints(tool json.RawMessage) *Hints {
	annotations, found, err := mcp.Lookup(tool, "annotations")
	if err != nil || !found || annotations[0] != '{' {
		return &defaultHints
	}
	h := defaultHints
	if err := mcp.Members(annotations, func(name string, value json.RawMessage) bool {
		if field := h.field(name); field != nil && (string(value) == "true" || string(value) == "false") {
			*field = string(value) == "true"
		}
		return true
	}); err != nil {
		return &defaultHints
	}
	return &h
}

// ParseHints reads annotations of the form readOnlyHint=true. Others have their defaults.
func ParseHints(values []string) (*Hints, error) {
	h := defaultHints
	for _, value := range values {
		name, state, _ := strings.Cut(value, "=")
		field := h.field(name)
		if field == nil || state != "true" && state != "false" {
			return nil, fmt.Errorf("%q: write readOnlyHint, destructiveHint, idempotentHint or openWorldHint, and =true or =false", value)
		}
		*field = state == "true"
	}
	return &h, nil
}

func (h *Hints) field(name string) *bool {
	switch name {
	case "readOnlyHint":
		return &h.ReadOnly
	case "destructiveHint":
		return &h.Destructive
	case "idempotentHint":
		return &h.Idempotent
	case "openWorldHint":
		return &h.OpenWorld
	}
	return nil
}

// set adds the attributes of the hints; nil are the defaults.
func (h *Hints) set(attributes types.RecordMap) {
	if h == nil {
		h = &defaultHints
	}
	attributes["readOnlyHint"] = types.Boolean(h.ReadOnly)
	attributes["destructiveHint"] = types.Boolean(h.Destructive)
	attributes["idempotentHint"] = types.Boolean(h.Idempotent)
	attributes["openWorldHint"] = types.Boolean(h.OpenWorld)
}

// hintRecords are the attributes for each value of Hints: a list has many tools.
var hintRecords = func() map[Hints]types.Record {
	all := map[Hints]types.Record{}
	for bits := range 16 {
		h := Hints{ReadOnly: bits&1 > 0, Destructive: bits&2 > 0, Idempotent: bits&4 > 0, OpenWorld: bits&8 > 0}
		attributes := types.RecordMap{}
		h.set(attributes)
		all[h] = types.NewRecord(attributes)
	}
	return all
}()

// record is set for a resource without other attributes.
func (h *Hints) record() types.Record {
	if h == nil {
		h = &defaultHints
	}
	return hintRecords[*h]
}

// tools holds the annotations of the tools that lists have shown.
type tools struct {
	// fetching is a semaphore, held while the stage requests a list by itself.
	fetching chan struct{}

	mu      sync.Mutex
	byName  map[string]*Hints
	fetched time.Time // when the stage has last read a whole list
}

const (
	// maxTools bounds the tools that are kept.
	maxTools = 10_000
	// fetchInterval is the time between two lists that the stage requests by itself: clients
	// call tools that do not exist.
	fetchInterval = 10 * time.Second
)

// note keeps the annotations of the tools of a list, which has them.
func (t *tools) note(l *listing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, item := range l.list.Items {
		if t.byName == nil || len(t.byName) >= maxTools {
			t.byName = map[string]*Hints{}
		}
		t.byName[item.Name] = l.hints[i]
	}
}

// get returns the annotations of a tool, nil when no list has shown it. due reports whether a
// list is to be requested for them.
func (t *tools) get(name string) (of *Hints, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of = t.byName[name]
	return of, of == nil && time.Since(t.fetched) > fetchInterval
}

// hintsOf returns the annotations of a tool that x calls. When no list has shown the tool, it
// requests one on behalf of x; other calls wait meanwhile. A tool that is in no list has the
// defaults.
func (p *Policy) hintsOf(ctx context.Context, x *exchange.Exchange, next exchange.Handler, name string) (*Hints, error) {
	t := &p.tools
	if of, due := t.get(name); !due {
		return of, nil
	}
	select {
	case t.fetching <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.fetching }()
	if of, due := t.get(name); !due {
		return of, nil
	}
	err := mcp.Pages(func(params json.RawMessage) (*mcp.Message, error) {
		list, err := listFor(x, params)
		if err != nil {
			return nil, err
		}
		return next(ctx, list)
	}, func(result json.RawMessage) error {
		_, err := p.read(mcp.MethodToolsList, result)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.fetched = time.Now()
	t.mu.Unlock()
	of, _ := t.get(name)
	return of, nil
}

// listFor is a tools/list with params on behalf of the caller of x, in the same session. In
// the stateless era it has the client's own declarations (MCP 2026-07-28, _meta).
func listFor(x *exchange.Exchange, params json.RawMessage) (*exchange.Exchange, error) {
	meta, found, err := mcp.Lookup(x.Request.Params, "_meta")
	if err == nil && found {
		meta, err = mcp.Without(meta, func(key string) bool {
			return !strings.HasPrefix(key, "io.modelcontextprotocol/") || key == mcp.MetaLogLevel
		})
	}
	if err == nil && found {
		params, err = mcp.Set(params, meta, "_meta")
	}
	if err != nil {
		return nil, err
	}
	list := *x
	list.Request = &mcp.Message{ID: mcp.StringID("policy"), Method: mcp.MethodToolsList, Params: params}
	list.Meta.ProgressToken, list.Meta.LogLevel = nil, ""
	list.Headers, list.Peer = nil, nil
	return &list, nil
}
