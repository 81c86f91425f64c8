package source

import (
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
)

// useArguments decides on the server's arguments: the person's, else the
// package's own, else those beside it.
func (r *Resolution) useArguments(req Request, p *registry.Package) error {
	s := &r.Spec
	if len(req.Args) > 0 {
		s.Args = req.Args
		return nil
	}
	var shown []string // the command line with what is missing in angle brackets
	complete := true
	for _, a := range p.PackageArguments {
		args, missing := argument(a)
		s.Args = append(s.Args, args...)
		shown = append(append(shown, args...), missing...)
		complete = complete && len(missing) == 0
	}
	if !complete {
		return fmt.Errorf("it needs arguments; give all of them after --: thv run %s -- %s", req.Arg, strings.Join(shown, " "))
	}
	if len(s.Args) == 0 {
		s.Args = p.Hints.Args
	}
	return nil
}

// argument is what an argument comes to on the command line. What only the
// person can supply is in missing, as text for people.
func argument(a registry.Argument) (args, missing []string) {
	value, open := expand(a.Value, declared(a.Variables))
	if value == "" {
		value = a.Default
	}
	hint := "<" + argumentHint(a) + ">"
	needed := a.IsRequired
	for _, name := range open {
		needed = needed || a.Variables[name].IsRequired
	}
	if a.Type != "named" {
		switch {
		case len(open) > 0 && needed:
			return nil, []string{value}
		case len(open) > 0:
			return nil, nil
		case value != "":
			return []string{value}, nil
		case needed:
			return nil, []string{hint}
		}
		return nil, nil
	}
	switch {
	case a.Format == "boolean":
		if value == "true" || value == "" && needed {
			return []string{a.Name}, nil
		}
		return nil, nil
	case len(open) > 0 && needed:
		return nil, join(a.Name, value)
	case len(open) > 0:
		return nil, nil
	case value != "":
		return join(a.Name, value), nil
	case needed && !wantsValue(a):
		return []string{a.Name}, nil
	case needed:
		return nil, join(a.Name, hint)
	}
	return nil, nil
}

func join(name, value string) []string {
	if strings.HasSuffix(name, "=") {
		return []string{name + value}
	}
	return []string{name, value}
}

// wantsValue distinguishes a named argument that takes a value from a bare flag.
func wantsValue(a registry.Argument) bool {
	return a.ValueHint != "" || a.Placeholder != "" || a.Format != "" || len(a.Choices) > 0
}

func argumentHint(a registry.Argument) string {
	for _, hint := range []string{a.ValueHint, a.Placeholder, strings.TrimLeft(a.Name, "-"), a.Description} {
		if hint != "" {
			return hint
		}
	}
	return "value"
}
