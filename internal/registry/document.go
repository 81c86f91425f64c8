package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// node is a value in a document that has been checked to be JSON, with its place,
// so that a fault can name the line.
type node struct {
	doc  []byte
	from int
	to   int
}

// parseDocument takes content for one JSON document.
func parseDocument(content []byte) (node, error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if json.Valid(content) {
		return node{content, 0, len(content)}, nil
	}
	err := json.Unmarshal(content, new(json.RawMessage)) // for its error
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(content)) == 0:
		return node{}, errors.New("it is empty")
	case errors.As(err, &syntax):
		return node{}, fmt.Errorf("line %d: it is not JSON: %w", lineAt(content, int(syntax.Offset)), err)
	}
	return node{}, fmt.Errorf("it is not JSON: %w", err)
}

func lineAt(doc []byte, offset int) int {
	return 1 + bytes.Count(doc[:min(max(offset, 0), len(doc))], []byte("\n"))
}

func (n node) raw() []byte { return n.doc[n.from:n.to] }

// fault is an error at the node's line.
func (n node) fault(format string, args ...any) error {
	start := n.from + len(n.raw()) - len(bytes.TrimLeft(n.raw(), " \t\r\n"))
	return fmt.Errorf("line %d: %w", lineAt(n.doc, start), fmt.Errorf(format, args...))
}

// member is one key of an object with its value.
type member struct {
	key   string
	value node
}

// members takes an object apart, in its order. A repeated key is an error:
// readers disagree about which one counts.
func (n node) members(what string) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(n.raw()))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, n.fault("%s must be an object", what)
	}
	var out []member
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, n.fault("%w", err)
		}
		key, _ := token.(string)
		value, err := n.next(dec)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, value.fault("%s: the key %q is there twice", what, key)
		}
		seen[key] = true
		out = append(out, member{key, value})
	}
	return out, nil
}

// elements takes an array apart.
func (n node) elements(what string) ([]node, error) {
	dec := json.NewDecoder(bytes.NewReader(n.raw()))
	if start, err := dec.Token(); err != nil || start != json.Delim('[') {
		return nil, n.fault("%s must be a list", what)
	}
	var out []node
	for dec.More() {
		value, err := n.next(dec)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}

// next reads the value that dec stands before.
func (n node) next(dec *json.Decoder) (node, error) {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return node{}, n.fault("%w", err)
	}
	end := n.from + int(dec.InputOffset())
	return node{n.doc, end - len(raw), end}, nil
}

// fields is members for an object whose keys are all known.
func (n node) fields(what string, known []string) (map[string]node, error) {
	members, err := n.members(what)
	if err != nil {
		return nil, err
	}
	return onlyKnown(what, members, known)
}

// onlyKnown indexes members by key. A key that is not known is an error.
func onlyKnown(what string, members []member, known []string) (map[string]node, error) {
	isKnown := make(map[string]bool, len(known))
	for _, k := range known {
		isKnown[k] = true
	}
	out := make(map[string]node, len(members))
	for _, m := range members {
		if !isKnown[m.key] {
			return nil, m.value.fault("%s: unknown key %q%s", what, m.key, settings.Suggest(m.key, known))
		}
		out[m.key] = m.value
	}
	return out, nil
}

// decode reads the node into v, which decides what is looked at.
func (n node) decode(what string, v any) error {
	err := json.Unmarshal(n.raw(), v)
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		at := node{n.doc, n.from + int(typ.Offset), n.to}
		field := what
		if typ.Field != "" {
			field += "." + typ.Field
		}
		return at.fault("%s: there is a %s where there should be a %s", field, typ.Value, kindName(typ))
	}
	if err != nil {
		return n.fault("%s: %w", what, err)
	}
	return nil
}

// kindName is a Go kind in the words of JSON.
func kindName(e *json.UnmarshalTypeError) string {
	switch k := e.Type.Kind().String(); k {
	case "slice":
		return "list"
	case "struct", "map":
		return "object"
	case "bool":
		return "boolean"
	case "int":
		return "number"
	default:
		return k
	}
}

// isNull reports a JSON null, which means an absent key.
func (n node) isNull() bool { return bytes.Equal(bytes.TrimSpace(n.raw()), []byte("null")) }
