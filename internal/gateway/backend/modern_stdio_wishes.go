package backend

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// wishes is a filter of a subscription (MCP 2026-07-28, Subscriptions).
type wishes struct {
	lists map[string]bool
	uris  []string
}

// listNames are the members of a filter for lists.
var listNames = []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

// changeOf is the notification that a member of a filter for lists stands for,
// "" for any other member.
func changeOf(name string) string {
	switch name {
	case "toolsListChanged":
		return mcp.NotificationToolsChanged
	case "promptsListChanged":
		return mcp.NotificationPromptsChanged
	case "resourcesListChanged":
		return mcp.NotificationResourcesChanged
	}
	return ""
}

// wishesOf reads a filter. ok is false when there is something in it that we
// cannot put together with another.
func wishesOf(raw json.RawMessage) (w wishes, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return wishes{}, false
	}
	w.lists, ok = map[string]bool{}, true
	err := mcp.Members(raw, func(key string, value json.RawMessage) bool {
		switch {
		case changeOf(key) != "":
			var on bool
			ok = json.Unmarshal(value, &on) == nil
			w.lists[key] = on
		case key == "resourceSubscriptions":
			ok = json.Unmarshal(value, &w.uris) == nil
		default:
			ok = false
		}
		return ok
	})
	return w, ok && err == nil
}

// filter writes w.
func (w wishes) filter() json.RawMessage {
	out := map[string]any{}
	for name, on := range w.lists {
		if on {
			out[name] = true
		}
	}
	if len(w.uris) > 0 {
		out["resourceSubscriptions"] = w.uris
	}
	raw, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings
	}
	return raw
}

// union is what either wants.
func (w wishes) union(v wishes) wishes {
	out := wishes{lists: map[string]bool{}, uris: slices.Clone(w.uris)}
	for _, name := range listNames {
		out.lists[name] = w.lists[name] || v.lists[name]
	}
	for _, uri := range v.uris {
		if !slices.Contains(out.uris, uri) {
			out.uris = append(out.uris, uri)
		}
	}
	return out
}

// common is what both want.
func (w wishes) common(v wishes) wishes {
	out := wishes{lists: map[string]bool{}}
	for _, name := range listNames {
		out.lists[name] = w.lists[name] && v.lists[name]
	}
	for _, uri := range w.uris {
		if slices.Contains(v.uris, uri) {
			out.uris = append(out.uris, uri)
		}
	}
	return out
}

// include reports whether all of v is in w.
func (w wishes) include(v wishes) bool {
	for name, on := range v.lists {
		if on && !w.lists[name] {
			return false
		}
	}
	for _, uri := range v.uris {
		if !slices.Contains(w.uris, uri) {
			return false
		}
	}
	return true
}

// concern reports whether m is of what w is about; what is of no kind we know is
// for all. The resource that was updated may be a part of the one subscribed to
// (MCP, Resources, Subscriptions).
func (w wishes) concern(m *mcp.Message) bool {
	for _, name := range listNames {
		if changeOf(name) == m.Method {
			return w.lists[name]
		}
	}
	if m.Method != mcp.NotificationResourceUpdated {
		return true
	}
	updated, _, err := mcp.LookupString(m.Params, "uri")
	return err == nil && slices.ContainsFunc(w.uris, func(uri string) bool { return strings.HasPrefix(updated, uri) })
}
