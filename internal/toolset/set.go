package toolset

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Set applies a [Config] to the tools of one server. It is safe for concurrent use.
type Set struct {
	config Config
	log    *slog.Logger
	filter map[string]bool // visible names; nil for no filter
	// visible and actual are the two directions of the overrides that rename.
	visible, actual map[string]string
	edits           map[string]edit // by the server's name

	mu sync.Mutex // guards the fields below
	// taken are new names that another tool of the server has. Clients see neither tool.
	taken  map[string]bool
	logged map[string]bool // faults that have been logged
	pins   Pins
	// verified are SHA-256 of tools, as they were listed, that are as their pins.
	verified map[string][sha256.Size]byte
	differs  map[string]bool // tools that were listed differently from their pins
}

// edit is what replaces members of a tool, as JSON; nil keeps the member.
type edit struct{ name, description json.RawMessage }

// New returns the Set of a valid Config. log receives what does not fit the tools of the
// server, each fault once.
func New(cfg Config, log *slog.Logger) *Set {
	s := &Set{
		config: cfg, log: log, visible: map[string]string{}, actual: map[string]string{}, edits: map[string]edit{},
		taken: map[string]bool{}, logged: map[string]bool{},
	}
	for _, name := range cfg.Filter {
		if s.filter == nil {
			s.filter = map[string]bool{}
		}
		s.filter[name] = true
	}
	for actual, o := range cfg.Overrides {
		var e edit
		if o.Name != "" && o.Name != actual {
			s.visible[actual], s.actual[o.Name] = o.Name, actual
			e.name = quote(o.Name)
		}
		if o.Description != "" {
			e.description = quote(o.Description)
		}
		s.edits[actual] = e
	}
	return s
}

func quote(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a string always has a JSON form
	return raw
}

// resolve returns the server's name of the tool that clients see as name. ok is false when
// they see none of that name. A name without an override may still be unknown to the server.
func (s *Set) resolve(name string) (actual string, ok bool) {
	if s.filter != nil && !s.filter[name] {
		return "", false
	}
	if actual, ok := s.actual[name]; ok {
		return actual, !s.isTaken(name) && s.mayCall(actual)
	}
	_, renamed := s.visible[name]
	return name, !renamed && s.mayCall(name)
}

// show returns the name under which clients see a tool of the server, and whether they see
// it. hidden is the reason why they do not.
func (s *Set) show(t mcp.Item) (name string, hidden Hidden) {
	actual := t.Name
	name, renamed := s.visible[actual]
	if !renamed {
		name = actual
	}
	if _, target := s.actual[name]; target && (!renamed || s.isTaken(name)) {
		return name, Ambiguous
	}
	if s.filter != nil && !s.filter[name] {
		return name, Filtered
	}
	if s.differing(t) {
		return name, Unpinned
	}
	return name, Visible
}

// Hidden is why clients do not see a tool.
type Hidden string

// The reasons. A tool that clients see is Visible.
const (
	Visible Hidden = ""
	// Filtered: the filter does not name it.
	Filtered Hidden = "filter"
	// Ambiguous: an override gives one tool the name that another has.
	Ambiguous Hidden = "ambiguous name"
	// Unpinned: it is new, or differs from its pin.
	Unpinned Hidden = "pin"
)

// observe notes that the server has a tool.
func (s *Set) observe(name string) {
	if _, target := s.actual[name]; !target {
		return
	}
	if _, renamed := s.visible[name]; !renamed {
		s.take(name)
	}
}

// take notes that a tool of the server has a name that an override gives to another tool.
func (s *Set) take(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[name] = true
	s.report(s.ambiguity(name))
}

func (s *Set) ambiguity(name string) string {
	return fmt.Sprintf("the tools override names tool %q %q, which is the name of another tool of the server; clients see neither", s.actual[name], name)
}

func (s *Set) isTaken(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[name]
}

// report logs a fault once. The caller holds mu.
func (s *Set) report(fault string) {
	if !s.logged[fault] {
		s.logged[fault] = true
		s.log.Warn(fault)
	}
}

// Observe compares the configuration with all tools of the server. It returns what does not
// fit, a sentence for each fault, and logs each once.
func (s *Set) Observe(tools []Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
		s.differing(mcp.Item{Name: t.Name, Raw: t.JSON})
	}
	known, seen := map[string]bool{}, map[string]bool{}
	taken := map[string]bool{}
	var shown []string
	for _, name := range names {
		known[name] = true
		visible, renamed := s.visible[name]
		if !renamed {
			visible = name
			if _, target := s.actual[name]; target {
				taken[name] = true
			}
		}
		seen[visible] = true
		shown = append(shown, visible)
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		faults = append(faults, s.ambiguity(name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.config.Overrides)) {
		if !known[name] {
			faults = append(faults, missing("override", name, names))
		}
	}
	for _, name := range s.config.Filter {
		if !seen[name] {
			faults = append(faults, missing("filter", name, shown))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = taken
	for _, fault := range faults {
		s.report(fault)
	}
	return faults
}

// missing is the fault of a name that no tool has.
func missing(what, name string, known []string) string {
	return fmt.Sprintf("the tools %s names %q, but the server has no such tool%s", what, name, settings.Suggest(name, known))
}
