package backend

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// filter says of what a subscription is to hear, or hears (MCP 2026-07-28,
// Subscriptions, NotificationSubscriptions).
type filter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

// maxSubscriptions bounds the resources of one subscription.
const maxSubscriptions = 256

// filterOf reads the filter of a subscriptions/listen, or of what acknowledges one.
// all is false when it has members that we do not know. The error is an *mcp.Error.
func filterOf(params json.RawMessage) (f filter, all bool, err error) {
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
			return filter{}, false, err
		}
		if found && json.Unmarshal(value, to) != nil {
			return filter{}, false, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "notifications." + name + " is not what it must be"}
		}
	}
	all = true
	err = mcp.Members(raw, func(key string, _ json.RawMessage) bool {
		all = all && known[key] != nil
		return all
	})
	return f, all, err
}

// wanted is the filter that a client asks for, of bounded size.
func wanted(x *exchange.Exchange) (f filter, all bool, err error) {
	f, all, err = filterOf(x.Request.Params)
	if err == nil && len(f.ResourceSubscriptions) > maxSubscriptions {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "too many resourceSubscriptions in one request"}
	}
	return f, all, err
}

// text writes f.
func (f *filter) text() json.RawMessage {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // truth values and strings
	}
	return raw
}

// listChanges are the notifications of lists.
var listChanges = []string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// list is the member that stands for one of listChanges, nil for another
// notification.
func (f *filter) list(change string) *bool {
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

// isChange reports whether the notification is of what subscriptions are about.
func isChange(method string) bool {
	return slices.Contains(listChanges, method) || method == mcp.NotificationResourceUpdated
}

// union is what any of them wants, the resources in order.
func union(all ...filter) (out filter) {
	for _, f := range all {
		for _, change := range listChanges {
			*out.list(change) = *out.list(change) || *f.list(change)
		}
		out.ResourceSubscriptions = append(out.ResourceSubscriptions, f.ResourceSubscriptions...)
	}
	slices.Sort(out.ResourceSubscriptions)
	out.ResourceSubscriptions = slices.Compact(out.ResourceSubscriptions)
	return out
}

// common is what both want.
func (f *filter) common(g filter) (out filter) {
	for _, change := range listChanges {
		*out.list(change) = *f.list(change) && *g.list(change)
	}
	for _, uri := range f.ResourceSubscriptions {
		if slices.Contains(g.ResourceSubscriptions, uri) {
			out.ResourceSubscriptions = append(out.ResourceSubscriptions, uri)
		}
	}
	return out
}

// include reports whether all of g is in f.
func (f *filter) include(g filter) bool {
	for _, change := range listChanges {
		if *g.list(change) && !*f.list(change) {
			return false
		}
	}
	return !slices.ContainsFunc(g.ResourceSubscriptions, func(uri string) bool { return !slices.Contains(f.ResourceSubscriptions, uri) })
}

func (f *filter) equal(g *filter) bool {
	return f.ToolsListChanged == g.ToolsListChanged && f.PromptsListChanged == g.PromptsListChanged &&
		f.ResourcesListChanged == g.ResourcesListChanged && slices.Equal(f.ResourceSubscriptions, g.ResourceSubscriptions)
}

func (f *filter) empty() bool { return f.equal(&filter{}) }

// concern reports whether m is of what f is about; what is of no kind we know is
// for all.
func (f *filter) concern(m *mcp.Message) bool {
	if wanted := f.list(m.Method); wanted != nil {
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
