package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Filter says of what a subscription is to hear, or hears (MCP 2026-07-28,
// Subscriptions, NotificationSubscriptions).
type Filter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

// MaxSubscriptions bounds the resources of one subscription.
const MaxSubscriptions = 256

// ParseFilter reads the filter of a subscriptions/listen, or of what acknowledges one.
// all is false when it has members that we do not know. The error is an *mcp.Error.
func ParseFilter(params json.RawMessage) (f Filter, all bool, err error) {
	raw, found, err := mcp.Lookup(params, "notifications")
	if err != nil {
		return f, false, err
	}
	if !found {
		return f, false, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "subscriptions/listen needs notifications, which says of what"}
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
			return Filter{}, false, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "notifications." + name + " is not what it must be"}
		}
	}
	all = true
	err = mcp.Members(raw, func(key string, _ json.RawMessage) bool {
		all = all && known[key] != nil
		return all
	})
	return f, all, err
}

// RequestedFilter is the filter that a client asks for, of bounded size.
func RequestedFilter(x *exchange.Exchange) (f Filter, all bool, err error) {
	f, all, err = ParseFilter(x.Request.Params)
	if err == nil && len(f.ResourceSubscriptions) > MaxSubscriptions {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resourceSubscriptions in one request"}
	}
	return f, all, err
}

// JSON writes f.
func (f *Filter) JSON() json.RawMessage {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // truth values and strings
	}
	return raw
}

// ListChanges are the notifications of lists.
var ListChanges = []string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// List is the member that stands for one of listChanges, nil for another
// notification.
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

// IsChange reports whether the notification is of what subscriptions are about.
func IsChange(method string) bool {
	return slices.Contains(ListChanges, method) || method == mcp.NotificationResourceUpdated
}

// Union is what any of them wants, the resources in order.
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

// Intersection is what both want.
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

// Includes reports whether all of g is in f.
func (f *Filter) Includes(g Filter) bool {
	for _, change := range ListChanges {
		if *g.List(change) && !*f.List(change) {
			return false
		}
	}
	return !slices.ContainsFunc(g.ResourceSubscriptions, func(uri string) bool { return !slices.Contains(f.ResourceSubscriptions, uri) })
}

// Equal reports whether f and g are the same.
func (f *Filter) Equal(g *Filter) bool {
	return f.ToolsListChanged == g.ToolsListChanged && f.PromptsListChanged == g.PromptsListChanged &&
		f.ResourcesListChanged == g.ResourcesListChanged && slices.Equal(f.ResourceSubscriptions, g.ResourceSubscriptions)
}

// IsEmpty reports whether f matches nothing.
func (f *Filter) IsEmpty() bool { return f.Equal(&Filter{}) }

// Matches reports whether m is of what f is about; what is of no kind we know is
// for all.
func (f *Filter) Matches(m *mcp.Message) bool {
	if wanted := f.List(m.Method); wanted != nil {
		return *wanted
	}
	return m.Method != mcp.NotificationResourceUpdated || slices.ContainsFunc(f.ResourceSubscriptions, updates(m))
}

// updates reports whether m, a notifications/resources/updated, is of interest to
// who has subscribed to a URI: the resource that was updated may be a part of that
// one (MCP, Resources, Subscriptions).
func updates(m *mcp.Message) func(uri string) bool {
	updated, found, err := mcp.LookupString(m.Params, "uri")
	return func(uri string) bool { return err == nil && found && isPart(updated, uri) }
}

// isPart reports whether uri is whole or lies below it. Where a URI is divided only
// its own delimiters say (RFC 3986 section 2.2): a:bc is no part of a:b, and somebody
// else may watch it.
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
