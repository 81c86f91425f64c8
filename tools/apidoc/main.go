// Command apidoc prints the reference of the definitions in deploy/crds as Markdown:
// docs/kubernetes-api.md. `make generate-api` runs it.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolhaven/toolhaven/deploy/crds"
)

// definition is what is read of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Names struct {
			Kind       string   `yaml:"kind"`
			ShortNames []string `yaml:"shortNames"`
		} `yaml:"names"`
		Versions []struct {
			Schema struct {
				OpenAPI schema `yaml:"openAPIV3Schema"`
			} `yaml:"schema"`
		} `yaml:"versions"`
	} `yaml:"spec"`
}

// schema is what is read of a JSON schema.
type schema struct {
	Type                 string            `yaml:"type"`
	Description          string            `yaml:"description"`
	Pattern              string            `yaml:"pattern"`
	Properties           map[string]schema `yaml:"properties"`
	Items                *schema           `yaml:"items"`
	AdditionalProperties *schema           `yaml:"additionalProperties"`
	Required             []string          `yaml:"required"`
	Enum                 []any             `yaml:"enum"`
	Default              any               `yaml:"default"`
	Minimum              *int64            `yaml:"minimum"`
	Maximum              *int64            `yaml:"maximum"`
	MinLength            *int64            `yaml:"minLength"`
	MaxLength            *int64            `yaml:"maxLength"`
	MinItems             *int64            `yaml:"minItems"`
	MaxItems             *int64            `yaml:"maxItems"`
	MaxProperties        *int64            `yaml:"maxProperties"`
	Any                  bool              `yaml:"x-kubernetes-preserve-unknown-fields"`
	Quantity             bool              `yaml:"x-kubernetes-int-or-string"`
	Keys                 []string          `yaml:"x-kubernetes-list-map-keys"`
	ListType             string            `yaml:"x-kubernetes-list-type"`
	Rules                []struct {
		Message string `yaml:"message"`
	} `yaml:"x-kubernetes-validations"`
}

const intro = `# Resources of toolhaven.dev/v1beta1

Generated from the definitions in deploy/crds by ` + "`make generate-api`" + `: do not edit. How to use them
is in [kubernetes.md](kubernetes.md). Beside what is listed here, the admission webhook checks
what a schema cannot express, such as addresses and policies.
`

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func write(w io.Writer) error {
	files, err := crds.Files.ReadDir(".")
	if err != nil {
		return err
	}
	var out strings.Builder
	out.WriteString(intro)
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), "toolhaven.dev_") {
			continue
		}
		content, err := crds.Files.ReadFile(file.Name())
		if err != nil {
			return err
		}
		var d definition
		if err := yaml.Unmarshal(content, &d); err != nil {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
		d.write(&out)
	}
	_, err = io.WriteString(w, out.String())
	return err
}

func (d *definition) write(w *strings.Builder) {
	names := d.Spec.Names
	s := d.Spec.Versions[0].Schema.OpenAPI
	fmt.Fprintf(w, "\n## %s\n\n%s Short names: %s.\n", names.Kind, oneLine(s.Description), strings.Join(names.ShortNames, ", "))
	for _, part := range []string{"spec", "status"} {
		fmt.Fprintf(w, "\n| field | type | rules | meaning |\n|---|---|---|---|\n")
		p := s.Properties[part]
		p.write(w, part, slices.Contains(s.Required, part))
	}
}

// write writes the row of a field, and those of its fields.
func (s *schema) write(w *strings.Builder, path string, required bool) {
	rules := s.rules()
	if required {
		rules = append([]string{"required"}, rules...)
	}
	fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", path, s.typeName(), cell(strings.Join(rules, "; ")), cell(oneLine(s.Description)))
	if strings.HasSuffix(path, ".conditions") {
		return // Kubernetes' own type
	}
	inner, at := s, path
	switch {
	case s.Items != nil:
		inner, at = s.Items, path+"[]"
	case s.AdditionalProperties != nil:
		inner, at = s.AdditionalProperties, path+"{}"
	}
	for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
		p := inner.Properties[name]
		p.write(w, at+"."+name, slices.Contains(inner.Required, name))
	}
}

func (s *schema) typeName() string {
	switch {
	case s.Quantity:
		return "quantity"
	case s.Any:
		return "any object"
	case s.Items != nil:
		return "list of " + s.Items.typeName()
	case s.AdditionalProperties != nil:
		return "map to " + s.AdditionalProperties.typeName()
	}
	return s.Type
}

// rules are the constraints of a field, and of the items of a list.
func (s *schema) rules() []string {
	var rules []string
	add := func(format string, args ...any) { rules = append(rules, fmt.Sprintf(format, args...)) }
	if s.Default != nil {
		add("default `%v`", s.Default)
	}
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = fmt.Sprintf("`%v`", v)
		}
		add("%s", strings.Join(values, " or "))
	}
	if s.Pattern != "" && !s.Quantity {
		add("`%s`", s.Pattern)
	}
	for _, bound := range []struct {
		value  *int64
		format string
	}{
		{s.Minimum, "at least %d"}, {s.Maximum, "at most %d"}, {s.MaxLength, "at most %d characters"},
		{s.MinItems, "at least %d items"}, {s.MaxItems, "at most %d items"}, {s.MaxProperties, "at most %d keys"},
	} {
		if bound.value != nil {
			add(bound.format, *bound.value)
		}
	}
	if s.MinLength != nil {
		add("not empty")
	}
	switch {
	case s.ListType == "set":
		add("each item once")
	case len(s.Keys) > 0:
		add("each %s once", strings.Join(s.Keys, " and "))
	}
	for _, rule := range s.Rules {
		add("%s", rule.Message)
	}
	if s.Items != nil {
		for _, rule := range s.Items.rules() {
			add("items: %s", rule)
		}
	}
	return rules
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cell is text in a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
