// Package toolset is the gateway's stage for tools: a filter selects the tools that clients
// see, and overrides give them other names and descriptions.
//
// A client sees a tool under its visible name, which is that of its override or else the
// server's. Filter, lists and calls use visible names; the server receives its own. A tool
// that is filtered out does not exist for a client: it is in no list, and a call of it gets
// the error of an unknown tool without reaching the server.
//
// The stage reads requests and results of both eras and knows neither transports nor
// sessions. Free text of a server, such as its instructions and error messages, is not
// changed.
package toolset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Config selects and renames tools. The zero Config shows all tools unchanged.
type Config struct {
	// Filter are the visible names of the tools that clients see; empty is all tools.
	Filter []string
	// Overrides are by the server's own name of the tool.
	Overrides map[string]Override
	// Pin hides tools that differ from the pins of [Set.Pin], and those without a pin.
	Pin bool
}

// Override replaces what clients see of one tool.
type Override struct {
	// Name and Description replace those of the server; "" keeps them.
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
}

// IsZero reports whether c changes nothing.
func (c Config) IsZero() bool { return len(c.Filter) == 0 && len(c.Overrides) == 0 && !c.Pin }

// Validate returns everything that is wrong with c, as far as that does not depend on the
// tools of the server ([Set.Observe] checks that).
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	owners := map[string]string{} // server's names by visible name
	for _, actual := range slices.Sorted(maps.Keys(c.Overrides)) {
		o := c.Overrides[actual]
		if fault := nameFault(actual); fault != "" {
			add("tools override: the name %q of a tool %s", actual, fault)
			continue
		}
		if o == (Override{}) {
			add("tools override: tool %q has neither a name nor a description", actual)
		}
		if fault := nameFault(o.Name); o.Name != "" && fault != "" {
			add("tools override: the new name %q of tool %q %s", o.Name, actual, fault)
		}
		if !utf8.ValidString(o.Description) {
			add("tools override: the description of tool %q is not UTF-8", actual)
		}
		visible := c.visible(actual)
		if other, taken := owners[visible]; taken {
			add("tools override: tools %q and %q are both named %q", other, actual, visible)
		}
		owners[visible] = actual
	}
	for _, name := range c.Filter {
		if fault := nameFault(name); fault != "" {
			add("tools filter: the name %q %s", name, fault)
			continue
		}
		// Without this check the filter would silently hide the tool that it names.
		if _, seen := owners[name]; !seen && c.visible(name) != name {
			add("tools filter: the override names tool %q %q; the filter must use that name", name, c.visible(name))
		}
	}
	return errors.Join(errs...)
}

// visible returns the name under which clients see a tool of the server.
func (c Config) visible(actual string) string {
	if name := c.Overrides[actual].Name; name != "" {
		return name
	}
	return actual
}

// nameFault is what is wrong with the name of a tool, "" for nothing. The gateway refuses
// calls of names with control characters.
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "contains control characters"
	case strings.TrimSpace(name) != name:
		return "begins or ends with a space"
	}
	return ""
}
