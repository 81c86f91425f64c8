package source

import (
	"regexp"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
)

var variable = regexp.MustCompile(`\{([^{}\s]+)\}`)

// expand puts values in the place of {name}. What lookup does not have
// stays as it is (server.json: braces may be part of a value); what it has
// without a value is listed in open.
func expand(template string, lookup func(name string) (value string, known bool)) (text string, open []string) {
	text = variable.ReplaceAllStringFunc(template, func(match string) string {
		name := strings.Trim(match, "{}")
		value, known := lookup(name)
		if known && value == "" {
			open = append(open, name)
		}
		if value == "" {
			return match
		}
		return value
	})
	return text, open
}

// declared looks variables up among those that an entry declares.
func declared(variables map[string]registry.Input) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := variables[name]
		if !ok {
			return "", false
		}
		if v.Value != "" {
			return v.Value, true
		}
		return v.Default, true
	}
}

// input is the Input that an entry's variable or header amounts to, and its
// value when the entry fixes it. Of a value in which variables are still open,
// the person gives the whole.
func input(kv registry.KeyValue) (in Input, fixed string) {
	in = Input{
		Name: kv.Name, Description: kv.Description, Required: kv.IsRequired, Secret: kv.IsSecret,
		Default: kv.Default, Choices: kv.Choices,
	}
	if kv.Value == "" {
		return in, ""
	}
	value, open := expand(kv.Value, declared(kv.Variables))
	if len(open) == 0 {
		for name, v := range kv.Variables {
			if strings.Contains(kv.Value, "{"+name+"}") && v.IsSecret {
				in.Secret = true
			}
		}
		if value == kv.Value {
			return in, value // "value set" is not for the person to edit
		}
		in.Default = value
		return in, ""
	}
	for _, name := range open {
		v := kv.Variables[name]
		in.Required = in.Required || v.IsRequired
		in.Secret = in.Secret || v.IsSecret
		if kv.Value == "{"+name+"}" { // the variable is the value
			in.Choices = v.Choices
			if in.Description == "" {
				in.Description = v.Description
			}
		}
	}
	if kv.Value != "{"+open[0]+"}" {
		in.Choices = nil
		in.Description = strings.TrimSpace(in.Description + " (in the form " + value + ")")
	}
	return in, ""
}

// take records an Input and puts what the entry has of it into plain.
func (r *Resolution) take(kv registry.KeyValue, header bool, plain map[string]string) {
	in, fixed := input(kv)
	in.Header = header
	if fixed != "" && !in.Secret {
		plain[in.Name] = fixed
		return
	}
	if fixed != "" {
		in.Default = fixed
	}
	if in.Default != "" && !in.Secret {
		plain[in.Name] = in.Default
	}
	r.Inputs = append(r.Inputs, in)
}
