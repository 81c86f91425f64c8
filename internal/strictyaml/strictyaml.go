// Package strictyaml reads YAML configurations. Everything that does not fit the
// configuration's type is an error with its line: keys that no field has, keys that are
// repeated, values of another type, aliases. All of them are found at once.
//
// Fields have the names of their json tags, so a type that is read from JSON too has one
// set of names. Types with methods of their own for JSON or text are read by these.
package strictyaml

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Decode reads the one document of content into v. An empty document leaves v as it is.
// The error joins all faults.
func Decode(content []byte, v any) error {
	docs, err := Documents(content)
	switch {
	case err != nil:
		return err
	case len(docs) == 0:
		return nil
	case len(docs) > 1:
		return fmt.Errorf("line %d: there is a second document", docs[1].Line())
	}
	return docs[0].Decode(v)
}

// Document is one document of a file.
type Document struct{ root *yaml.Node }

// maxDocuments bounds the documents of a file.
const maxDocuments = 100

// Documents returns the documents of content that are not empty.
func Documents(content []byte) ([]Document, error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var docs []Document
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, errors.Join(syntaxFaults(err)...)
		case len(docs) == maxDocuments:
			return nil, fmt.Errorf("line %d: there are more than %d documents", doc.Line, maxDocuments)
		}
		if root := doc.Content[0]; root.Kind != yaml.ScalarNode || root.ShortTag() != "!!null" {
			docs = append(docs, Document{root})
		}
	}
}

// Line is the line of the file in which the document begins.
func (d Document) Line() int { return d.root.Line }

// Decode reads the document into v. The error joins all faults.
func (d Document) Decode(v any) error {
	if d.root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: it is not a list of settings such as \"name: value\"", d.root.Line)
	}
	var r reader
	text := r.value(d.root, reflect.TypeOf(v), "")
	if len(r.faults) > 0 {
		return errors.Join(r.faults...)
	}
	return json.Unmarshal(text, v)
}

// syntaxFaults separates the errors of the YAML library.
func syntaxFaults(err error) []error {
	var several *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &several):
		out := make([]error, len(several.Errors))
		for i, e := range several.Errors {
			out[i] = syntaxFault(e)
		}
		return out
	case errors.As(err, &one):
		return []error{syntaxFault(one)}
	}
	return []error{errors.New(plaintext.Line(err.Error()))}
}

func syntaxFault(e *yaml.LoadError) error {
	return fmt.Errorf("line %d: %s", e.Mark.Line, plaintext.Line(e.Message))
}

// reader turns nodes into JSON for a type and gathers what does not fit it.
type reader struct{ faults []error }

func (r *reader) fault(n *yaml.Node, path, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("line %d: %s%s", n.Line, prefix(path), fmt.Sprintf(format, args...)))
}

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return strings.TrimPrefix(path, ".") + ": "
}

// value is the JSON of n for a field of type t; nil if it does not fit.
func (r *reader) value(n *yaml.Node, t reflect.Type, path string) []byte {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode:
		r.fault(n, path, "an alias (*name) is not understood here")
		return nil
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return []byte("null")
	case t.Kind() == reflect.Interface:
		return r.untyped(n, path)
	case readsItself(t):
		return r.custom(n, t, path)
	}
	if want := wrongKind(n, t); want != "" {
		r.fault(n, path, "it must be %s%s", want, found(n))
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return r.object(n, path, fieldsOf(t))
	case reflect.Map:
		return r.object(n, path, fields{other: t.Elem()})
	case reflect.Slice:
		return r.list(n, t.Elem(), path)
	case reflect.String:
		return quote(n.Value)
	}
	v := reflect.New(t)
	if err := n.Decode(v.Interface()); err != nil { // a number beyond its type
		r.fault(n, path, "it must be %s%s", kindName(t), found(n))
		return nil
	}
	text, err := json.Marshal(v.Interface())
	if err != nil { // a number that JSON does not have
		r.fault(n, path, "it must be %s%s", kindName(t), found(n))
	}
	return text
}

// untyped is the JSON of n for a field of any type.
func (r *reader) untyped(n *yaml.Node, path string) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		return r.object(n, path, fields{other: reflect.TypeFor[any]()})
	case yaml.SequenceNode:
		return r.list(n, reflect.TypeFor[any](), path)
	}
	var v any
	if err := n.Decode(&v); err == nil {
		if text, err := json.Marshal(v); err == nil {
			return text
		}
	}
	return quote(n.Value)
}

// custom is the JSON of n for a type that reads JSON or text by a method.
func (r *reader) custom(n *yaml.Node, t reflect.Type, path string) []byte {
	text := r.untyped(n, path)
	if n.Kind == yaml.ScalarNode && !reflect.PointerTo(t).Implements(jsonUnmarshaler) {
		text = quote(n.Value)
	}
	if err := json.Unmarshal(text, reflect.New(t).Interface()); err != nil {
		r.fault(n, path, "%s", plaintext.Line(err.Error()))
	}
	return text
}

func (r *reader) list(n *yaml.Node, item reflect.Type, path string) []byte {
	items := make([][]byte, len(n.Content))
	for i, c := range n.Content {
		items[i] = r.value(c, item, fmt.Sprintf("%s[%d]", path, i))
	}
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
}

func (r *reader) object(n *yaml.Node, path string, known fields) []byte {
	var members [][]byte
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := path + "." + key.Value
		t, ok := known.types[key.Value]
		if !ok {
			t = known.other
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fault(key, path, "a key must be a text")
			continue
		case lines[key.Value] != 0:
			r.fault(key, at, "is there already, in line %d", lines[key.Value])
			continue
		case t == nil:
			r.unknown(key, at, known.names)
			continue
		}
		lines[key.Value] = key.Line
		members = append(members, slices.Concat(quote(key.Value), []byte(":"), r.value(n.Content[i+1], t, at)))
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
}

func (r *reader) unknown(key *yaml.Node, at string, known []string) {
	if near := settings.Suggest(key.Value, known); near != "" {
		r.fault(key, at, "there is no such setting%s", near)
		return
	}
	r.fault(key, at, "there is no such setting; there are: %s", strings.Join(known, ", "))
}

func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return text
}

// fields are the keys of a mapping and the types of their values.
type fields struct {
	names []string
	types map[string]reflect.Type
	other reflect.Type // of keys that are not in types; nil if there are none
}

func fieldsOf(t reflect.Type) fields {
	f := fields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			inner := fieldsOf(field.Type)
			f.names = append(f.names, inner.names...)
			for n, t := range inner.types {
				f.types[n] = t
			}
		case name != "" && name != "-":
			f.names = append(f.names, name)
			f.types[name] = field.Type
		}
	}
	return f
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}

// wrongKind is what a value must be, if it is something else.
func wrongKind(n *yaml.Node, t reflect.Type) string {
	var ok bool
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		ok = n.Kind == yaml.MappingNode
	case reflect.Slice:
		ok = n.Kind == yaml.SequenceNode
	case reflect.String:
		ok = n.Kind == yaml.ScalarNode
	case reflect.Bool:
		ok = n.ShortTag() == "!!bool"
	case reflect.Float32, reflect.Float64:
		ok = n.ShortTag() == "!!float" || n.ShortTag() == "!!int"
	default:
		ok = n.ShortTag() == "!!int"
	}
	if ok {
		return ""
	}
	return kindName(t)
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a section with settings"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int32:
		return "a whole number of 32 bits"
	}
	return "a whole number"
}

// found quotes a value that is wrong.
func found(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return fmt.Sprintf(", not %.100q", n.Value)
}
