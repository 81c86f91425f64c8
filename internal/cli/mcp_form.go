package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxFields bounds what one form asks for.
const maxFields = 100

// form is what a server asks a person for (MCP client/elicitation, Form Mode).
type form struct {
	message string
	fields  []field
}

// field is one property of the form's schema, a primitive or a list of choices.
type field struct {
	name     string
	required bool

	Type        string
	Title       string
	Description string
	Default     any
	choices
	Items choices
}

// choices are the ways to write an enum, with titles or without.
type choices struct {
	Enum      []string
	EnumNames []string
	OneOf     []choice
	AnyOf     []choice
}

type choice struct{ Const, Title string }

func newForm(p *sdk.ElicitParams) (*form, error) {
	if p.Mode != "" && p.Mode != "form" {
		return nil, fmt.Errorf("a question of mode %s", shown(p.Mode))
	}
	b, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties map[string]field
		Required   []string
	}
	if err := json.Unmarshal(b, &schema); err != nil {
		return nil, errors.New("a form whose schema is not one of elicitation")
	}
	if len(schema.Properties) > maxFields {
		return nil, fmt.Errorf("a form with more than %d fields", maxFields)
	}
	out := &form{message: shown(p.Message)}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		f := schema.Properties[name]
		f.name, f.required = name, slices.Contains(schema.Required, name)
		out.fields = append(out.fields, f)
	}
	// What is required comes first, in the server's order.
	rank := func(f field) int {
		if i := slices.Index(schema.Required, f.name); i >= 0 {
			return i
		}
		return len(schema.Required)
	}
	slices.SortStableFunc(out.fields, func(a, b field) int { return rank(a) - rank(b) })
	return out, nil
}

// String is the form in one line.
func (f *form) String() string {
	names := make([]string, len(f.fields))
	for i, field := range f.fields {
		names[i] = shown(field.name)
	}
	if len(names) == 0 {
		return f.message
	}
	return fmt.Sprintf("%s (%s)", f.message, strings.Join(names, ", "))
}

// options of an enum; nil if the field is none.
func (c choices) options() []choice {
	out := append(slices.Clone(c.OneOf), c.AnyOf...)
	for i, value := range c.Enum {
		o := choice{Const: value}
		if i < len(c.EnumNames) {
			o.Title = c.EnumNames[i]
		}
		out = append(out, o)
	}
	return out
}

func (f field) options() []choice {
	if f.Type == "array" {
		return f.Items.options()
	}
	return f.choices.options()
}

// prompt asks for the field: name, type, what it is, its choices, its default.
func (f field) prompt() string {
	var b strings.Builder
	kind := f.Type
	options := f.options()
	switch {
	case f.Type == "array":
		kind = "some of the choices, separated by commas"
	case len(options) > 0:
		kind = "one of the choices"
	case f.Type == "boolean":
		kind = "yes or no"
	}
	if !f.required {
		kind += ", optional"
	}
	fmt.Fprintf(&b, "  %s (%s)", shown(f.name), shown(kind))
	about := f.Description
	if about == "" {
		about = f.Title
	}
	if about != "" {
		b.WriteString(" " + shown(about))
	}
	for i, o := range options {
		fmt.Fprintf(&b, "\n    %d) %s", i+1, shown(o.Const))
		if o.Title != "" {
			b.WriteString(" " + shown(o.Title))
		}
	}
	if len(options) > 0 {
		b.WriteString("\n   ")
	}
	if f.Default != nil {
		d, _ := json.Marshal(f.Default)
		fmt.Fprintf(&b, " [%s]", shown(string(d)))
	}
	b.WriteString(": ")
	return b.String()
}

// parse reads what was typed. nil leaves the field out.
func (f field) parse(line string) (any, error) {
	if line == "" {
		if f.Default == nil && f.required {
			return nil, errors.New("this is required")
		}
		return f.Default, nil
	}
	options := f.options()
	switch {
	case f.Type == "array":
		values := []any{}
		for part := range strings.SplitSeq(line, ",") {
			v, err := pick(options, strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			values = append(values, v)
		}
		return values, nil
	case len(options) > 0:
		return pick(options, line)
	case f.Type == "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return true, nil
		case "n", "no", "false":
			return false, nil
		}
		return nil, errors.New("write yes or no")
	case f.Type == "integer":
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return nil, errors.New("write a whole number")
		}
		return n, nil
	case f.Type == "number":
		n, err := strconv.ParseFloat(line, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("write a number")
		}
		return n, nil
	}
	return line, nil
}

// pick finds a choice by its value, or by its number in the list.
func pick(options []choice, text string) (any, error) {
	for _, o := range options {
		if o.Const == text {
			return text, nil
		}
	}
	if i, err := strconv.Atoi(text); err == nil && i >= 1 && i <= len(options) {
		return options[i-1].Const, nil
	}
	return nil, fmt.Errorf("%q is none of the choices", text)
}
