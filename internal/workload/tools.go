package workload

import (
	"context"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/toolset"
)

// Tools selects and renames the tools that clients see (package toolset). The zero value
// shows all tools unchanged.
type Tools struct {
	// Filter are the names that clients see, after Override; empty is all tools.
	Filter []string `json:"filter,omitempty"`
	// Override is the content of --tools-override, by the server's own name of a tool.
	Override map[string]toolset.Override `json:"override,omitempty"`
}

// Config is what the gateway's stage is configured with.
func (t Tools) Config() toolset.Config {
	return toolset.Config{Filter: t.Filter, Overrides: t.Override}
}

// ToolList is all tools of a workload's server, as its gateway shows them.
type ToolList struct {
	Workload string `json:"workload"`
	Tools    []Tool `json:"tools"`
	// Shown are the totals of the tools that clients see, All those of all tools.
	Shown ToolTotal `json:"shown"`
	All   ToolTotal `json:"all"`
}

// Tool is one tool of a server.
type Tool struct {
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

// ToolTotal counts tools and what they cost together.
type ToolTotal struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
}

// Tools requests all tools of a workload's server from its owner. ErrNotRunning when it has
// none.
func (m *Manager) Tools(ctx context.Context, name string) (*ToolList, error) {
	owner, err := m.store.Owner(name)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return nil, fmt.Errorf("workload %q is %w", name, ErrNotRunning)
	}
	return owner.Tools(ctx)
}
