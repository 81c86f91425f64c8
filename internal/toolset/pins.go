package toolset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// maxRemembered bounds the description that a Pin keeps, in characters. What is compared is
// its hash.
const maxRemembered = 2000

// Pins are what is remembered of the tools of a server, by the server's own name.
type Pins map[string]Pin

// Pin is what is remembered of one tool.
type Pin struct {
	// Description is the beginning of the server's own description, in one line.
	Description string `json:"description,omitempty"`
	// DescriptionHash and SchemaHash are SHA-256 of the whole description and of the
	// inputSchema, in hexadecimal digits. Member order and blanks of the schema do not count.
	DescriptionHash string `json:"descriptionHash"`
	SchemaHash      string `json:"schemaHash"`
}

// same reports whether two pins are of the same tool. The kept descriptions follow from the
// hashes.
func (p Pin) same(q Pin) bool {
	return p.DescriptionHash == q.DescriptionHash && p.SchemaHash == q.SchemaHash
}

// pinOf returns the pin of a tool. The error is for a tool that readers could read
// differently.
func pinOf(raw json.RawMessage) (Pin, error) {
	description, _, err := mcp.Lookup(raw, "description")
	if err != nil {
		return Pin{}, err
	}
	schema, _, err := mcp.Lookup(raw, "inputSchema")
	if err != nil {
		return Pin{}, err
	}
	if canonical, err := mcp.Canonical(schema); err == nil {
		schema = canonical
	}
	var text string
	_ = json.Unmarshal(description, &text) // not a string: its bytes are compared
	if text != "" {
		description = quote(text) // in one spelling
	}
	return Pin{plaintext.Excerpt(text, maxRemembered), hash(description), hash(schema)}, nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// PinsOf returns the pins of tools.
func PinsOf(tools []Tool) (Pins, error) {
	pins := Pins{}
	for _, t := range tools {
		pin, err := pinOf(t.JSON)
		if err != nil {
			return nil, fmt.Errorf("read tool %q: %w", plaintext.Excerpt(t.Name, maxShown), err)
		}
		pins[t.Name] = pin
	}
	return pins, nil
}

// Change is a difference between what is remembered of a tool and what the server lists.
type Change struct {
	// Tool is the server's own name.
	Tool string `json:"tool"`
	// Kind is "new", "changed" or "removed".
	Kind string `json:"kind"`
	// Before and After are the beginnings of the descriptions, where they differ.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Description and Schema are set for the parts of a changed tool that differ.
	Description bool `json:"descriptionChanged,omitempty"`
	Schema      bool `json:"schemaChanged,omitempty"`
}

// String is the change as a sentence.
func (c Change) String() string {
	switch {
	case c.Kind != "changed":
		return fmt.Sprintf("tool %q is %s", c.Tool, c.Kind)
	case c.Description && c.Schema:
		return fmt.Sprintf("the description and the input schema of tool %q have changed", c.Tool)
	case c.Schema:
		return fmt.Sprintf("the input schema of tool %q has changed", c.Tool)
	}
	return fmt.Sprintf("the description of tool %q has changed", c.Tool)
}

// Compare returns the differences of now from the remembered pins, sorted by tool.
func (p Pins) Compare(now Pins) []Change {
	var changes []Change
	for name, pin := range p {
		after, there := now[name]
		switch {
		case !there:
			changes = append(changes, Change{Tool: name, Kind: "removed", Before: pin.Description})
		case !pin.same(after):
			c := Change{Tool: name, Kind: "changed", Description: pin.DescriptionHash != after.DescriptionHash, Schema: pin.SchemaHash != after.SchemaHash}
			if c.Description {
				c.Before, c.After = pin.Description, after.Description
			}
			changes = append(changes, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, known := p[name]; !known {
			changes = append(changes, Change{Tool: name, Kind: "new", After: now[name].Description})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Tool, b.Tool) })
	return changes
}

// Pin sets the pins of a [Config] with Pin; before, all tools are hidden. A tool that has
// differed from its pin once, in the list of any client, stays hidden until the next call.
func (s *Set) Pin(pins Pins) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins, s.verified, s.differs = pins, map[string][sha256.Size]byte{}, map[string]bool{}
}

// differing reports whether a listed tool differs from its pin.
func (s *Set) differing(t mcp.Item) bool {
	if !s.config.Pin {
		return false
	}
	sum := sha256.Sum256(t.Raw) // hashing is cheaper than reading the schema again
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.differs[t.Name] {
		return true
	}
	pin, known := s.pins[t.Name]
	if !known {
		return true
	}
	if s.verified[t.Name] == sum {
		return false
	}
	now, err := pinOf(t.Raw)
	if err == nil && now.same(pin) {
		s.verified[t.Name] = sum
		return false
	}
	s.differs[t.Name] = true
	s.report(fmt.Sprintf("tool %q differs from its pin and is hidden", plaintext.Excerpt(t.Name, maxShown)))
	return true
}

// mayCall reports whether a call of the server's tool is allowed by the pins.
func (s *Set) mayCall(actual string) bool {
	if !s.config.Pin {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.pins[actual]
	return known && !s.differs[actual]
}
