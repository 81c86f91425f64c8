package subscribe

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Filter selects the notifications that a subscription requests, or that the server sends
// for it (MCP 2026-07-28, Subscriptions, NotificationSubscriptions).
type Filter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

const (
	// MaxResources bounds the resource URIs of one subscription.
	MaxResources = 256
	// MaxWatched bounds the resource URIs of all subscriptions in a [Fanout].
	MaxWatched = 1024
)

// ParseFilter returns the filter in the params of a subscriptions/listen request, or of its
// acknowledgement. all is false when the filter has members that the gateway does not
// support. The error is an *mcp.Error.
func ParseFilter(params json.RawMessage) (f Filter, all bool, err error) {
	raw, found, err := mcp.Lookup(params, "notifications")
	if err != nil {
		return f, false, err
	}
	if !found {
		return f, false, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.notifications of subscriptions/listen is missing"}
	}
	known := map[string]any{
		"toolsListChanged":      &f.ToolsListChanged,
		"promptsListChanged":    &f.PromptsListChanged,
		"resourcesListChanged":  &f.ResourcesListChanged,
		"resourceSubscriptions": &f.ResourceSubscriptions,
	}
	for name, to := range known {
		value, found, err := mcp.Lookup(raw, name)
		if err != nil {
			return Filter{}, false, err
		}
		if found && json.Unmarshal(value, to) != nil {
			return Filter{}, false, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "notifications." + name + " has the wrong type"}
		}
	}
	all = true
	err = mcp.Members(raw, func(key string, _ json.RawMessage) bool {
		all = all && known[key] != nil
		return all
	})
	return f, all, err
}

// RequestedFilter is [ParseFilter] for the request of a client. More than
// [MaxResources] resources are an error.
func RequestedFilter(x *exchange.Exchange) (f Filter, all bool, err error) {
	f, all, err = ParseFilter(x.Request.Params)
	if err == nil && len(f.ResourceSubscriptions) > MaxResources {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resourceSubscriptions in one request"}
	}
	return f, all, err
}

// JSON returns f as JSON.
func (f *Filter) JSON() json.RawMessage {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // cannot happen: f holds booleans and strings only
	}
	return raw
}

// ListChanges are the list_changed notifications.
var ListChanges = []string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// List returns the member of f for one of [ListChanges], nil for another notification.
func (f *Filter) List(change string) *bool {
	switch change {
	case mcp.NotificationToolsChanged:
		return &f.ToolsListChanged
	case mcp.NotificationPromptsChanged:
		return &f.PromptsListChanged
	case mcp.NotificationResourcesChanged:
		return &f.ResourcesListChanged
	}
	return nil
}

// IsChange reports whether a subscription can select notifications of the method: changes
// of lists and updates of resources.
func IsChange(method string) bool {
	return slices.Contains(ListChanges, method) || method == mcp.NotificationResourceUpdated
}

// Union returns the filter that selects what any of the filters selects. Its resources are
// sorted and unique.
func Union(all ...Filter) (out Filter) {
	for _, f := range all {
		for _, change := range ListChanges {
			*out.List(change) = *out.List(change) || *f.List(change)
		}
		out.ResourceSubscriptions = append(out.ResourceSubscriptions, f.ResourceSubscriptions...)
	}
	slices.Sort(out.ResourceSubscriptions)
	out.ResourceSubscriptions = slices.Compact(out.ResourceSubscriptions)
	return out
}

// Intersection returns the filter that selects what both f and g select.
func (f *Filter) Intersection(g Filter) (out Filter) {
	for _, change := range ListChanges {
		*out.List(change) = *f.List(change) && *g.List(change)
	}
	for _, uri := range f.ResourceSubscriptions {
		if slices.Contains(g.ResourceSubscriptions, uri) {
			out.ResourceSubscriptions = append(out.ResourceSubscriptions, uri)
		}
	}
	return out
}

// clone returns a copy that shares no memory with f.
func (f *Filter) clone() Filter {
	out := *f
	out.ResourceSubscriptions = slices.Clone(f.ResourceSubscriptions)
	return out
}

// Includes reports whether f has every member and resource of g.
func (f *Filter) Includes(g Filter) bool {
	for _, change := range ListChanges {
		if *g.List(change) && !*f.List(change) {
			return false
		}
	}
	return !slices.ContainsFunc(g.ResourceSubscriptions, func(uri string) bool { return !slices.Contains(f.ResourceSubscriptions, uri) })
}

// Equal reports whether f and g are equal. The order of the resources counts.
func (f *Filter) Equal(g *Filter) bool {
	return f.ToolsListChanged == g.ToolsListChanged && f.PromptsListChanged == g.PromptsListChanged &&
		f.ResourcesListChanged == g.ResourcesListChanged && slices.Equal(f.ResourceSubscriptions, g.ResourceSubscriptions)
}

// IsEmpty reports whether f selects nothing.
func (f *Filter) IsEmpty() bool { return f.Equal(&Filter{}) }

// Matches reports whether a subscription with the filter f receives m. Every subscription
// receives a notification of a method that filters do not cover.
func (f *Filter) Matches(m *mcp.Message) bool {
	if selected := f.List(m.Method); selected != nil {
		return *selected
	}
	return m.Method != mcp.NotificationResourceUpdated || slices.ContainsFunc(f.ResourceSubscriptions, updates(m))
}

// updates returns a function that reports whether m, a notifications/resources/updated,
// concerns a subscription to a URI. The updated resource may be a sub-resource of the
// subscribed one (MCP, Resources, Subscriptions).
func updates(m *mcp.Message) func(uri string) bool {
	updated, found, err := mcp.LookupString(m.Params, "uri")
	return func(uri string) bool { return err == nil && found && isPart(updated, uri) }
}

// isPart reports whether uri equals whole or lies below it. A part begins at a delimiter of
// the URI only (RFC 3986 section 2.2): a:bc is not a part of a:b, so a subscription to a:b
// must not receive its updates.
func isPart(uri, whole string) bool {
	const delimiters = "/?#:"
	rest, below := strings.CutPrefix(uri, whole)
	switch {
	case !below || whole == "":
		return false
	case rest == "":
		return true
	}
	return strings.IndexByte(delimiters, whole[len(whole)-1]) >= 0 || strings.IndexByte(delimiters, rest[0]) >= 0
}
