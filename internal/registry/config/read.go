package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Load reads and validates the file at path; stateDir is where the database goes
// unless the file names another. Paths in the file are relative to it. The error holds all
// faults, those of the text with their line.
func Load(path, stateDir string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxFile)
	if errors.Is(err, netguard.ErrTooLarge) {
		return nil, &Faults{Path: path, Err: fmt.Errorf("it is larger than %d bytes", maxFile)}
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c, err := Parse(content, dir, stateDir)
	if err != nil {
		return nil, &Faults{Path: path, Err: err}
	}
	return c, nil
}

// Faults is everything that is wrong with a configuration file.
type Faults struct {
	Path string
	Err  error
}

func (f *Faults) Unwrap() error { return f.Err }

func (f *Faults) Error() string {
	faults := strings.Split(f.Err.Error(), "\n")
	if len(faults) == 1 {
		return fmt.Sprintf("configuration %s: %s", f.Path, faults[0])
	}
	return fmt.Sprintf("configuration %s has %d faults:\n  %s", f.Path, len(faults), strings.Join(faults, "\n  "))
}

// Parse reads a configuration and holds it to all its rules. dir is what paths in
// it are relative to.
func Parse(content []byte, dir, stateDir string) (*Config, error) {
	root, err := document(content)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if root != nil {
		var faults []error
		checkNode(root, reflect.TypeFor[Config](), "", &faults)
		if err := root.Decode(c); err != nil {
			faults = append(faults, typeFaults(err)...)
		}
		if len(faults) > 0 {
			return nil, errors.Join(faults...)
		}
	}
	c.fill(dir, stateDir)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// document is the one YAML document of content; nil when it is empty.
func document(content []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc, rest yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.Join(typeFaults(err)...)
	}
	switch err := dec.Decode(&rest); {
	case err == nil:
		return nil, fmt.Errorf("line %d: there is a second document", rest.Line)
	case !errors.Is(err, io.EOF):
		return nil, errors.Join(typeFaults(err)...)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, nil
	case root.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("line %d: it is not a list of settings such as \"auth: ...\"", root.Line)
	}
	return root, nil
}

// typeFaults takes the YAML library's errors apart, one for each fault.
func typeFaults(err error) []error {
	var several *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &several):
		out := make([]error, len(several.Errors))
		for i, e := range several.Errors {
			out[i] = lineFault(e)
		}
		return out
	case errors.As(err, &one):
		return []error{lineFault(one)}
	}
	return []error{errors.New(plaintext.Line(err.Error()))}
}

func lineFault(e *yaml.LoadError) error {
	text := plaintext.Line(e.Message)
	if strings.HasPrefix(text, "line ") { // one of our own
		return errors.New(text)
	}
	return fmt.Errorf("line %d: %s", e.Mark.Line, text)
}

// checkNode finds, at any depth, values of another type than a setting has, keys
// that no setting has, and keys that are repeated. Its faults name the line and the
// setting.
func checkNode(n *yaml.Node, t reflect.Type, path string, faults *[]error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		*faults = append(*faults, fmt.Errorf("line %d: %s: an alias (*name) is not understood here", n.Line, strings.TrimPrefix(path, ".")))
		return
	}
	if want := wrongType(n, t); want != "" {
		*faults = append(*faults, fmt.Errorf("line %d: %s: it must be %s", n.Line, strings.TrimPrefix(path, "."), want))
		return
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			checkNode(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), faults)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 1; i < len(n.Content); i += 2 {
			checkNode(n.Content[i], t.Elem(), path+"."+n.Content[i-1].Value, faults)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := map[string]reflect.Type{}
		var names []string
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("yaml")
			fields[name] = t.Field(i).Type
			names = append(names, name)
		}
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			if first, twice := seen[key.Value]; twice {
				*faults = append(*faults, fmt.Errorf("line %d: %s: is there already, in line %d", key.Line, at, first))
				continue
			}
			seen[key.Value] = key.Line
			field, known := fields[key.Value]
			if !known {
				*faults = append(*faults, unknownKey(key, at, names))
				continue
			}
			checkNode(n.Content[i+1], field, path+"."+key.Value, faults)
		}
	}
}

// wrongType is what a value must be, if it is something else.
func wrongType(n *yaml.Node, t reflect.Type) string {
	scalar := n.Kind == yaml.ScalarNode
	if scalar && n.ShortTag() == "!!null" {
		return ""
	}
	switch {
	case t == reflect.TypeFor[Duration]():
		if _, err := time.ParseDuration(n.Value); !scalar || err != nil {
			return "a duration such as 30s, 10m or 2h" + found(n)
		}
	case (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) && n.Kind != yaml.MappingNode:
		return "a section with settings" + found(n)
	case t.Kind() == reflect.Slice && n.Kind != yaml.SequenceNode:
		return "a list" + found(n)
	case t.Kind() == reflect.String && !scalar:
		return "a text"
	case t.Kind() == reflect.Bool && n.ShortTag() != "!!bool":
		return "true or false" + found(n)
	case t.Kind() == reflect.Int && n.ShortTag() != "!!int":
		return "a whole number" + found(n)
	}
	return ""
}

// found quotes a value that is wrong.
func found(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return fmt.Sprintf(", not %.100q", n.Value)
}

func unknownKey(key *yaml.Node, at string, known []string) error {
	if near := settings.Nearest(key.Value, known); near != "" {
		return fmt.Errorf("line %d: %s: there is no such setting; did you mean %s?", key.Line, at, near)
	}
	return fmt.Errorf("line %d: %s: there is no such setting; there are: %s", key.Line, at, strings.Join(known, ", "))
}

// UnmarshalYAML reads 30s, 10m, 2h.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %q is not a duration such as 30s, 10m or 2h", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}
