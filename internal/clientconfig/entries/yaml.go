package entries

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// yamlSyntax is YAML 1.2: one document, with a mapping in block style at its root.
type yamlSyntax struct{}

func (yamlSyntax) number(n int) any { return n }

func (yamlSyntax) decode(content []byte) (map[string]any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc yaml.Node
	var tree, more any
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return map[string]any{}, nil
	} else if err != nil {
		return nil, err
	}
	if err := checkKeys(&doc); err != nil {
		return nil, err
	}
	if err := doc.Decode(&tree); err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	switch object := tree.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return object, nil
	}
	return nil, errors.New("it is not a mapping of names")
}

// checkKeys refuses a key that a mapping has twice. The decoder does so too, but takes
// minutes for some thousands of them.
func checkKeys(node *yaml.Node) error {
	seen := map[string]bool{}
	for i, n := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && n.Kind == yaml.ScalarNode {
			id := n.Tag + " " + n.Value
			if seen[id] {
				return fmt.Errorf("line %d: the key %.40q is there twice", n.Line, n.Value)
			}
			seen[id] = true
		}
		if err := checkKeys(n); err != nil {
			return err
		}
	}
	return nil
}

// yamlFile is a parsed file.
type yamlFile struct {
	content []byte
	root    *yaml.Node // nil for a file without a value
}

func openYAML(content []byte) (*yamlFile, error) {
	// The parser counts these as ends of lines (YAML 1.1 section 4.2).
	if bytes.Count(content, []byte("\r")) != bytes.Count(content, []byte("\r\n")) || bytes.ContainsAny(content, "\u0085\u2028\u2029") {
		return nil, ErrForm
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, ErrForm // decode has accepted it
	}
	f := &yamlFile{content: content}
	if len(doc.Content) == 1 && doc.Content[0].Kind == yaml.MappingNode {
		f.root = doc.Content[0]
	}
	return f, nil
}

// offset returns the offset of a position: a line, and a column that counts characters, both
// from 1.
func (f *yamlFile) offset(line, column int) (int, error) {
	at := 0
	for ; line > 1; line-- {
		if at = nextLine(f.content, at); at >= len(f.content) {
			return 0, ErrForm
		}
	}
	for ; column > 1; column-- {
		_, size := utf8.DecodeRune(f.content[at:])
		if size == 0 {
			return 0, ErrForm
		}
		at += size
	}
	return at, nil
}

// pair returns key and value of a member of a mapping; nil for none.
func pair(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// entry returns the node where an entry begins (its key, or the element of the list), and
// the mapping of its members.
func (f *yamlFile) entry(p Place, name string) (begin, members *yaml.Node, err error) {
	_, container := pair(f.root, p.Path[0])
	if !p.Listed {
		begin, members = pair(container, name)
	} else if container != nil && container.Kind == yaml.SequenceNode {
		for _, element := range container.Content {
			if _, is := pair(element, nameMember); is != nil && is.Value == name {
				begin, members = element, element
			}
		}
	}
	if members == nil || members.Kind != yaml.MappingNode {
		return nil, nil, ErrForm
	}
	return begin, members, nil
}

func (yamlSyntax) add(content []byte, p Place, name string, fields []Field) ([]byte, error) {
	f, err := openYAML(content)
	if err != nil {
		return nil, err
	}
	nl := newline(content)
	if f.root == nil || len(f.root.Content) == 0 {
		return f.addContainer(p, name, fields, nl, "")
	}
	if f.root.Style&yaml.FlowStyle != 0 {
		return nil, ErrForm
	}
	key, container := pair(f.root, p.Path[0])
	if key == nil {
		return f.addContainer(p, name, fields, nl, strings.Repeat(" ", f.root.Column-1))
	}
	if container.Anchor != "" || container.Style&yaml.TaggedStyle != 0 {
		return nil, ErrForm // its last entry could not be removed
	}
	at, err := f.offset(key.Line, 1)
	if err != nil {
		return nil, err
	}
	indent := strings.Repeat(" ", key.Column-1) + "  "
	var splices []splice
	switch {
	case container.Style&yaml.FlowStyle != 0 && len(container.Content) == 0:
		// An empty container in flow style becomes one in block style.
		open, err := f.offset(container.Line, container.Column)
		if err != nil {
			return nil, err
		}
		if container.Line != key.Line || !bytes.HasPrefix(content[open:], []byte("{}")) && !bytes.HasPrefix(content[open:], []byte("[]")) {
			return nil, ErrForm
		}
		splices = append(splices, splice{open - (len(content[:open]) - len(bytes.TrimRight(content[:open], " "))), open + 2, ""})
	case container.Style&yaml.FlowStyle != 0:
		return nil, ErrForm
	case len(container.Content) > 0:
		indent = strings.Repeat(" ", container.Content[0].Column-1)
		if p.Listed {
			indent = strings.Repeat(" ", container.Column-1)
		}
	}
	pos := nextLine(content, at)
	text := yamlEntry(p, name, fields, indent, nl)
	if pos == len(content) {
		text = appended(content) + text
	}
	return apply(content, append(splices, splice{pos, pos, text})...), nil
}

// addContainer appends the container with one entry.
func (f *yamlFile) addContainer(p Place, name string, fields []Field, nl, indent string) ([]byte, error) {
	content, end := f.content, len(f.content)
	if f.root != nil && len(f.root.Content) == 0 { // {}
		if !bytes.Equal(bytes.TrimSpace(content), []byte("{}")) {
			return nil, ErrForm
		}
		content, end = nil, 0
	}
	text := appended(content) + indent + yamlScalar(p.Path[0]) + ":" + nl + yamlEntry(p, name, fields, indent+"  ", nl)
	return apply(content, splice{end, end, text}), nil
}

// yamlEntry returns the lines of an entry.
func yamlEntry(p Place, name string, fields []Field, indent, nl string) string {
	var b strings.Builder
	first := indent + "  "
	if p.Listed {
		first = indent + "- "
	} else {
		b.WriteString(indent + yamlScalar(name) + ":" + nl)
	}
	for i, f := range fields {
		if i == 0 {
			b.WriteString(first)
		} else {
			b.WriteString(indent + "  ")
		}
		b.WriteString(f.Name + ": " + yamlScalar(f.Value) + nl)
	}
	return b.String()
}

// yamlScalar returns a value in one line.
func yamlScalar(value any) string {
	if s, ok := value.(string); ok {
		text, err := yaml.Marshal(s)
		if line := strings.TrimSuffix(string(text), "\n"); err == nil && line != "" && !strings.ContainsAny(line, "\n\r") {
			return line
		}
	}
	return literal(value)
}

func (yamlSyntax) remove(content []byte, p Place, name string) ([]byte, error) {
	f, err := openYAML(content)
	if err != nil {
		return nil, err
	}
	begin, _, err := f.entry(p, name)
	if err != nil {
		return nil, err
	}
	key, container := pair(f.root, p.Path[0])
	if container.Style&yaml.FlowStyle != 0 || begin.Line == key.Line {
		return nil, ErrForm
	}
	from, err := f.offset(begin.Line, 1)
	if err != nil {
		return nil, err
	}
	// The dash of a list's element is in the column of the list.
	column := begin.Column
	if p.Listed {
		column = container.Column
	}
	to := f.blockEnd(from, column-1)
	splices := []splice{{from, to, ""}}
	if p.Listed && len(container.Content) == 1 || !p.Listed && len(container.Content) == 2 {
		after, err := f.afterKey(key)
		if err != nil {
			return nil, err
		}
		empty := " {}"
		if p.Listed {
			empty = " []"
		}
		splices = append(splices, splice{after, after, empty})
	}
	return apply(content, splices...), nil
}

// blockEnd returns where the block ends that begins in the line at from and whose lines are
// indented by more than indent: after its last line that is neither blank nor a comment.
func (f *yamlFile) blockEnd(from, indent int) int {
	end := nextLine(f.content, from)
	for at := end; at < len(f.content); {
		next := nextLine(f.content, at)
		line := f.content[at:next]
		text := bytes.TrimLeft(line, " ")
		switch {
		case isBlank(line), text[0] == '#':
		case len(line)-len(text) > indent:
			end = next
		default:
			return end
		}
		at = next
	}
	return end
}

// afterKey returns the offset after the colon of a key.
func (f *yamlFile) afterKey(key *yaml.Node) (int, error) {
	at, err := f.offset(key.Line, key.Column)
	if err != nil {
		return 0, err
	}
	for _, quote := range []string{"", `"`, "'"} {
		if text := quote + key.Value + quote + ":"; bytes.HasPrefix(f.content[at:], []byte(text)) {
			return at + len(text), nil
		}
	}
	return 0, ErrForm
}

func (yamlSyntax) change(content []byte, p Place, name string, fields []Field, drop []string) ([]byte, error) {
	f, err := openYAML(content)
	if err != nil {
		return nil, err
	}
	_, members, err := f.entry(p, name)
	if err != nil {
		return nil, err
	}
	for _, d := range drop {
		if key, _ := pair(members, d); key != nil {
			return nil, errRewrite
		}
	}
	var splices []splice
	for _, field := range fields {
		_, value := pair(members, field.Name)
		if value == nil || value.Kind != yaml.ScalarNode {
			return nil, errRewrite
		}
		if value.Value == fmt.Sprint(field.Value) {
			continue
		}
		at, err := f.offset(value.Line, value.Column)
		if err != nil {
			return nil, err
		}
		end, ok := f.scalarEnd(at, value)
		if !ok {
			return nil, errRewrite
		}
		splices = append(splices, splice{at, end, yamlScalar(field.Value)})
	}
	return apply(content, splices...), nil
}

// scalarEnd returns the end of a scalar at the offset at that is written in one line without
// escapes.
func (f *yamlFile) scalarEnd(at int, scalar *yaml.Node) (end int, ok bool) {
	quote := ""
	switch scalar.Style {
	case yaml.DoubleQuotedStyle:
		quote = `"`
	case yaml.SingleQuotedStyle:
		quote = "'"
	case 0:
	default:
		return 0, false
	}
	text := quote + scalar.Value + quote
	return at + len(text), bytes.HasPrefix(f.content[at:], []byte(text))
}
