// Package entries reads and edits the server entries in a configuration file of an MCP
// client: JSON with or without comments, YAML and TOML.
//
// An edit adds, changes or removes one entry. Every other byte of the file stays as it is:
// comments, order, indentation, line endings, a byte order mark. The file is parsed for
// positions, and text is inserted or removed at them; it is never written anew. The result
// is parsed again and compared with what the edit should give ([ErrForm] if it differs), so
// a form of writing that a parser reads in an unexpected way is refused, not damaged.
package entries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Format is the syntax of a file.
type Format int

// The formats. JSON accepts comments and trailing commas.
const (
	JSON Format = iota
	YAML
	TOML
)

// Errors that callers decide on.
var (
	// ErrInvalid is a file that cannot be parsed, or that has something else where entries
	// belong.
	ErrInvalid = errors.New("it is not valid")
	// ErrForm is a file that is valid, but in which this edit would change something else.
	ErrForm = errors.New("it is written in a way that only a person can change")
)

// Place is where a file has its entries.
type Place struct {
	Format Format
	// Path are the keys from the root to the object with the entries. A file in YAML or
	// TOML has one key.
	Path []string
	// Listed: the entries are elements of a list, whose member "name" identifies them.
	Listed bool
}

// nameMember identifies an entry of a list.
const nameMember = "name"

// Field is a member of an entry. Value is a string, a bool, an int, or a []string.
type Field struct {
	Name  string
	Value any
}

// Entry is the decoded content of an entry.
type Entry map[string]any

// String returns the member name if it is a string.
func (e Entry) String(name string) string {
	s, _ := e[name].(string)
	return s
}

// Strings returns the strings of the list that is the member name.
func (e Entry) Strings(name string) (all []string) {
	list, _ := e[name].([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// syntax is the implementation of a format. content has no byte order mark, and decode
// accepted it. name and p are valid; an entry to change or remove exists and is an object.
type syntax interface {
	decode(content []byte) (map[string]any, error)
	add(content []byte, p Place, name string, fields []Field) ([]byte, error)
	remove(content []byte, p Place, name string) ([]byte, error)
	// change sets fields and removes those of drop. errRewrite when the entry has to be
	// removed and added instead.
	change(content []byte, p Place, name string, fields []Field, drop []string) ([]byte, error)
	number(n int) any // what decode returns for n
}

var errRewrite = errors.New("the entry must be written anew")

func (f Format) syntax() syntax {
	return []syntax{jsonSyntax{}, yamlSyntax{}, tomlSyntax{}}[f]
}

// bom is the byte order mark of UTF-8.
var bom = []byte("\xef\xbb\xbf")

// List returns the entries by name. Something that is no object is a nil Entry.
func List(content []byte, p Place) (map[string]Entry, error) {
	tree, err := decode(bytes.TrimPrefix(content, bom), p)
	if err != nil {
		return nil, err
	}
	return find(tree, p)
}

// Put adds an entry, or sets the fields of the one that exists and removes those of its
// members in written that are not in fields. Other members of the entry stay.
func Put(content []byte, p Place, name string, fields []Field, written []string) ([]byte, error) {
	if p.Listed {
		fields = append([]Field{{nameMember, name}}, fields...)
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	drop := slices.DeleteFunc(slices.Clone(written), func(f string) bool { return slices.Contains(names, f) })
	s := p.Format.syntax()
	set := func(e Entry) Entry {
		e = maps.Clone(e)
		if e == nil {
			e = Entry{}
		}
		for _, f := range drop {
			delete(e, f)
		}
		for _, f := range fields {
			e[f.Name] = decoded(s, f.Value)
		}
		return e
	}
	return edit(content, p, name, set, func(body []byte, old Entry) ([]byte, error) {
		if old == nil {
			return s.add(body, p, name, fields)
		}
		if reflect.DeepEqual(set(old), old) {
			return body, nil
		}
		changed, err := s.change(body, p, name, fields, drop)
		if !errors.Is(err, errRewrite) {
			return changed, err
		}
		for member := range old {
			if !slices.Contains(names, member) && !slices.Contains(drop, member) {
				return nil, fmt.Errorf("%w: entry %q has the member %q, which thv did not write", ErrForm, name, member)
			}
		}
		if body, err = s.remove(body, p, name); err != nil {
			return nil, err
		}
		return s.add(body, p, name, fields)
	})
}

// Remove removes an entry. A file without it is returned as it is.
func Remove(content []byte, p Place, name string) ([]byte, error) {
	s := p.Format.syntax()
	return edit(content, p, name, func(Entry) Entry { return nil }, func(body []byte, old Entry) ([]byte, error) {
		if old == nil {
			return body, nil
		}
		return s.remove(body, p, name)
	})
}

// edit applies do to content and checks the result: want returns what the entry is after it,
// nil for none.
func edit(content []byte, p Place, name string, want func(Entry) Entry, do func(body []byte, old Entry) ([]byte, error)) ([]byte, error) {
	body, mark := bytes.CutPrefix(content, bom)
	before, err := decode(body, p)
	if err != nil {
		return nil, err
	}
	all, err := find(before, p)
	if err != nil {
		return nil, err
	}
	old, exists := all[name]
	if exists && old == nil {
		return nil, fmt.Errorf("%w: entry %q is not an object", ErrInvalid, name)
	}
	body, err = do(body, old)
	if err != nil {
		return nil, err
	}
	after, err := decode(body, p)
	if err != nil {
		return nil, ErrForm
	}
	if !reflect.DeepEqual(replaced(before, p, name, want(old)), normal(after, p)) {
		return nil, ErrForm
	}
	if mark {
		body = append(slices.Clone(bom), body...)
	}
	return body, nil
}

func decode(body []byte, p Place) (map[string]any, error) {
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrInvalid)
	}
	tree, err := p.Format.syntax().decode(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrInvalid, strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "hujson: "))
	}
	return tree, nil
}

// find returns the entries of a decoded file.
func find(tree map[string]any, p Place) (map[string]Entry, error) {
	at := any(tree)
	for _, key := range p.Path {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%w: %q is not in an object", ErrInvalid, key)
		}
		if at = object[key]; at == nil {
			return map[string]Entry{}, nil
		}
	}
	where := strings.Join(p.Path, ".")
	all := map[string]Entry{}
	if !p.Listed {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%w: %q is not an object", ErrInvalid, where)
		}
		for name, v := range object {
			e, _ := v.(map[string]any)
			all[name] = e
		}
		return all, nil
	}
	list, ok := at.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: %q is not a list", ErrInvalid, where)
	}
	for _, v := range list {
		e, _ := v.(map[string]any)
		name, ok := e[nameMember].(string)
		if !ok {
			continue
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%w: %q has the entry %q twice", ErrInvalid, where, name)
		}
		all[name] = e
	}
	return all, nil
}

// replaced returns the normal form of tree with the entry replaced by e, or without it.
func replaced(tree map[string]any, p Place, name string, e Entry) map[string]any {
	return within(tree, p.Path, func(at any) any {
		if !p.Listed {
			object, _ := at.(map[string]any)
			object = maps.Clone(object)
			if object == nil {
				object = map[string]any{}
			}
			delete(object, name)
			if e != nil {
				object[name] = map[string]any(e)
			}
			return object
		}
		list, _ := at.([]any)
		return byName(list, name, e)
	})
}

// normal returns tree in a form in which an edit can be compared: it has no empty container
// for entries, and the order of a list's entries does not matter.
func normal(tree map[string]any, p Place) map[string]any {
	return within(tree, p.Path, func(at any) any {
		if list, ok := at.([]any); ok && p.Listed {
			return byName(list, "", nil)
		}
		return at
	})
}

// byName returns list with the entry name replaced by e, as a map: named entries by name,
// other elements by their position among these.
func byName(list []any, name string, e Entry) map[string]any {
	all, others := map[string]any{}, 0
	for _, v := range list {
		if object, _ := v.(map[string]any); object != nil {
			if is, ok := object[nameMember].(string); ok {
				all["name "+is] = object
				continue
			}
		}
		all[fmt.Sprint("element ", others)] = v
		others++
	}
	if name != "" {
		delete(all, "name "+name)
	}
	if e != nil {
		all["name "+name] = map[string]any(e)
	}
	return all
}

// within returns a copy of tree with the value at path replaced by what f returns. Objects
// on the path that are empty then are left out.
func within(tree map[string]any, path []string, f func(any) any) map[string]any {
	tree = maps.Clone(tree)
	if tree == nil {
		tree = map[string]any{}
	}
	var v any
	if len(path) == 1 {
		v = f(tree[path[0]])
	} else {
		object, _ := tree[path[0]].(map[string]any)
		v = within(object, path[1:], f)
	}
	if object, ok := v.(map[string]any); v == nil || ok && len(object) == 0 {
		delete(tree, path[0])
	} else {
		tree[path[0]] = v
	}
	return tree
}

// decoded returns what decode returns for the value of a field.
func decoded(s syntax, value any) any {
	switch v := value.(type) {
	case int:
		return s.number(v)
	case []string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list
	}
	return value
}

// splice is the replacement of content[from:to].
type splice struct {
	from, to int
	text     string
}

// apply applies splices, which must not overlap.
func apply(content []byte, splices ...splice) []byte {
	slices.SortStableFunc(splices, func(a, b splice) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, s := range splices {
		out = append(append(out, content[at:s.from]...), s.text...)
		at = s.to
	}
	return append(out, content[at:]...)
}

// newline returns the line ending of a file.
func newline(content []byte) string {
	if i := bytes.IndexByte(content, '\n'); i > 0 && content[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineStart returns the offset of the first byte of the line with the byte at.
func lineStart(content []byte, at int) int { return bytes.LastIndexByte(content[:at], '\n') + 1 }

// nextLine returns the offset after the line with the byte at.
func nextLine(content []byte, at int) int {
	if i := bytes.IndexByte(content[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(content)
}

// isBlank reports whether text is spaces, tabs and line ends.
func isBlank(text []byte) bool { return len(bytes.Trim(text, " \t\r\n")) == 0 }

// literal returns a value of a field as JSON, which is also a value of YAML and TOML.
func literal(value any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // our own fields
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// appended returns what has to precede a block that is appended to content: the end of its
// last line.
func appended(content []byte) string {
	if len(content) == 0 || content[len(content)-1] == '\n' {
		return ""
	}
	return newline(content)
}
