package toolset

import (
	"encoding/json"
	"errors"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Bounds on what is read of the tools of a server.
const (
	maxTools = 10_000
	maxBytes = 64 << 20
)

// Tool is one tool of a server.
type Tool struct {
	// Name is the server's own.
	Name string
	// JSON is the tool as the server lists it.
	JSON json.RawMessage
}

// ReadAll reads all pages of the server's tools/list. send sends one request.
func ReadAll(send func(params json.RawMessage) (*mcp.Message, error)) ([]Tool, error) {
	var tools []Tool
	size := 0
	err := mcp.Pages(send, func(result json.RawMessage) error {
		page, err := mcp.ReadList(result, "tools", "name")
		if err != nil {
			return err
		}
		for _, t := range page.Items {
			tools = append(tools, Tool{t.Name, t.Raw})
			size += len(t.Raw)
		}
		if len(tools) > maxTools || size > maxBytes {
			return errors.New("it has too many tools")
		}
		return nil
	})
	return tools, err
}

// View is a tool as clients see it, or would see it if it were not hidden.
type View struct {
	// Name is the visible name.
	Name   string
	Hidden Hidden
	// Description is "" when the tool has none.
	Description string
	// JSON is the tool with its overrides.
	JSON json.RawMessage
}

// tokenBytes is how many bytes of JSON are counted as one token. Tokenizers differ: for the
// JSON of tools they need between three and five.
const tokenBytes = 4

// Tokens is an estimate of how many tokens the tool costs in a client's context.
func (v View) Tokens() int { return (len(v.JSON) + tokenBytes - 1) / tokenBytes }

// View returns what clients see of a tool. The error is for a tool that cannot be read.
func (s *Set) View(t Tool) (View, error) {
	var v View
	var err error
	item := mcp.Item{Name: t.Name, Raw: t.JSON}
	v.Name, v.Hidden = s.show(item)
	if v.JSON, err = s.edit(item); err != nil {
		return View{}, err
	}
	description, _, err := mcp.Lookup(v.JSON, "description")
	if err == nil && len(description) > 0 {
		_ = json.Unmarshal(description, &v.Description) // not a string: it has none
	}
	return v, err
}

// List is all tools of a workload's server, as its gateway shows them.
type List struct {
	Workload string   `json:"workload"`
	Tools    []Listed `json:"tools"`
	// Shown are the totals of the tools that clients see, All those of all tools.
	Shown Total `json:"shown"`
	All   Total `json:"all"`
	// Changes are the differences from what is remembered of the tools.
	Changes []Change `json:"changes,omitempty"`
}

// Listed is one tool of a server in a [List].
type Listed struct {
	// Name is the server's own, VisibleName the one for clients.
	Name        string `json:"name"`
	VisibleName string `json:"visibleName"`
	// Shown is set when clients see the tool; Hidden is the reason when they do not.
	Shown  bool   `json:"shown"`
	Hidden string `json:"hidden,omitempty"`
	// Description is the one for clients, in one line of at most 500 characters.
	Description string `json:"description,omitempty"`
	// Tokens is an estimate of what the tool costs in a client's context: a fourth of the
	// bytes of its JSON.
	Tokens int `json:"tokens"`
}

// Total counts tools and what they cost together.
type Total struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
}
